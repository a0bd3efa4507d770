"""The script that runs inside the toolchain environment's Python; kgen starts it, never imports it.

Protocol: one JSON object a line. First line out: {ready, nvrtc, libraries}, or {ready: false,
error}. Then for each line in {id, source, name, flags, emit} one line out
{id, ok, log, data (base64), seconds}. It ends at once when stdin closes, even inside a compilation,
so that no worker outlives its kgen.
"""

import base64
import ctypes
import glob
import json
import os
import queue
import sys
import threading
import time


def preload(toolkit):
    """Load this environment's NVRTC by path, before anything can look for one by name.

    The builtins library is opened by NVRTC through its bare name on the first compilation;
    one that is loaded already wins.
    """
    for pattern in ("libnvrtc-builtins.so.*", "libnvrtc.so.*"):
        found = sorted(glob.glob(os.path.join(toolkit, "lib", pattern)))
        if not found:
            raise RuntimeError(f"no {pattern} in {toolkit}/lib")
        ctypes.CDLL(found[-1])


def loaded_libraries():
    """Paths of every NVRTC library in this process, from the kernel's own list."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "libnvrtc" in line}
    return sorted(paths)


def text_of(size_call, text_call, program):
    """One NVRTC text or binary, through its size call and its fill call.

    The bindings write into the bytes object they are given. It starts as zeros because Python
    shares one-byte objects, and a text of size 1 holds only its closing zero.
    """
    error, size = size_call(program)
    check(error)
    data = bytes(size)
    check(text_call(program, data)[0])
    return data


def check(error):
    if int(error) != 0:
        raise RuntimeError(f"NVRTC returned {error.name}")


def compile_one(nvrtc, toolkit, request):
    """Compile one request; a refused source is an answer with ok false, not an exception."""
    start = time.perf_counter()
    include = os.path.join(toolkit, "include")
    flags = list(request["flags"])
    flags += [f"--include-path={include}", f"--include-path={os.path.join(include, 'cccl')}"]
    file = request["name"] + ".cu"
    error, program = nvrtc.nvrtcCreateProgram(request["source"].encode(), file.encode(), 0, [], [])
    check(error)
    try:
        encoded = [flag.encode() for flag in flags]
        status = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)[0]
        log = text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log = log.rstrip(b"\0").decode(errors="replace")
        data = b""
        if int(status) == 0:
            if request["emit"] == "ptx":
                data = text_of(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
            else:
                data = text_of(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        elif not log.strip():
            log = f"{file}: error: NVRTC returned {status.name} and no log"
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return {
        "ok": int(status) == 0,
        "log": log,
        "data": base64.b64encode(data).decode(),
        "seconds": time.perf_counter() - start,
    }


def read_requests(requests):
    """Reader thread. A closed stdin means that kgen is gone: nobody will read an answer."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def main(toolkit):
    # Whatever a library prints must not mix with the protocol.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    requests = queue.SimpleQueue()
    threading.Thread(target=read_requests, args=(requests,), daemon=True).start()
    try:
        preload(toolkit)
        from cuda.bindings import nvrtc  # pyright: ignore[reportMissingImports]

        error, major, minor = nvrtc.nvrtcVersion()
        check(error)
    except Exception as problem:
        answer({"ready": False, "error": f"{type(problem).__name__}: {problem}"})
        return 1
    answer({"ready": True, "nvrtc": f"{major}.{minor}", "libraries": loaded_libraries()})
    while True:
        request = json.loads(requests.get())
        try:
            result = compile_one(nvrtc, toolkit, request)
        except Exception as problem:
            log = f"{request['name']}.cu: error: {type(problem).__name__}: {problem}"
            result = {"ok": False, "log": log, "data": "", "seconds": 0.0}
        answer({"id": request["id"], **result})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
