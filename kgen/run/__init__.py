"""Running a kernel's device code: argument checks, tensor maps, launches."""

from kgen.run.arguments import Arguments, require_ok, status_of
from kgen.run.launch import Kernel, Launch, SharedLibrary

__all__ = ["Arguments", "Kernel", "Launch", "SharedLibrary", "require_ok", "status_of"]
