"""The fixtures of local mode: a launcher as a process, ended with its test."""

from tests.local.conftest import serve

__all__ = ["serve"]
