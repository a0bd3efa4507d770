"""From CUDA text to a cubin, PTX or shared library, with the compiler's report.

    toolchain   the private compiler environment: install, locate, status
    pool        worker processes that run NVRTC inside that environment (worker.py is their script)
    nvcc        the nvcc driver of the private environment, or of a toolkit that was asked for
    cache       content-addressed store of what was built
    sass        reads a disassembly: main loops, and the fences that must not stand in one
    gate        reads a build's log; decides which notes fail a build
    compile     compile_source, build_shared_library, disassemble: the calls other layers use

Nothing here knows of specs, plans or templates, and nothing imports the compilers: they run in
child processes.
"""
