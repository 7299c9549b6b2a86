"""The command `diffsim`: demo, verify, info; and the table that the demo uses."""

from ._ephemeris import Ephemeris, load_de440
from ._main import main


__all__ = ["Ephemeris", "load_de440", "main"]
