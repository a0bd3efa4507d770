"""The version, alone so that the command line can print it without loading anything."""

__version__ = "0.1.0"
