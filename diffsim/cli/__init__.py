"""The command `diffsim`: demo, verify, info."""

from ._main import main


__all__ = ["main"]
