"""Two libraries: the shipped kernels by nvcc, and their PyTorch operators by the host compiler.

nvcc is that of $NVCC, else of $CUDA_HOME, else the one on PATH. The host compiler is that of $CXX,
else the one on PATH; it must link libstdc++ as a shared library, so that the operators have the one
of torch: with a second one, linked statically, they crash where they format a number in an error.
Build against the torch that is installed: pip install --no-build-isolation .
"""

import sys
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

sys.path.insert(0, "kernels")
import gemm  # shipped by kgen


class Build(BuildExtension):
    """Puts libgemm.so beside the extension, which finds it there when it is loaded."""

    def build_extensions(self):
        (extension,) = self.extensions
        folder = Path(self.get_ext_fullpath(extension.name)).parent
        gemm.build(folder)
        extension.library_dirs.append(str(folder))
        super().build_extensions()


setup(
    packages=["consumer_gemm"],
    package_dir={"": "src"},
    ext_modules=[
        CppExtension(
            "consumer_gemm._C",
            ["kernels/gemm_torch.cpp"],
            include_dirs=[str(Path("kernels").absolute())],
            libraries=["gemm"],
            extra_link_args=["-Wl,-rpath,$ORIGIN"],
        )
    ],
    cmdclass={"build_ext": Build},
)
