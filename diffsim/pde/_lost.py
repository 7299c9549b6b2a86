"""Where a field was when a run of it failed."""

from typing import Any

import jax
import numpy as np

from ._schemes import MUSCL, Upwind


def where_lost(evolution: Any, t: Any, y: Any) -> str:
    """A sentence on the last finite state `y`, which was at the time `t`."""
    equation = evolution.equation
    name, when = type(equation).__name__, f"t = {float(t):.4g}"
    u = evolution.observe(t, y)
    if not equation.positive_fields:
        cell = _place(np.max(np.abs(np.asarray(u)), axis=0))
        return f"{name} blew up after {when}, where it was largest in cell {cell}."
    fields = [np.asarray(field) for field in equation.positive(u)]
    pairs = zip(equation.positive_fields, fields, strict=True)
    gone = next(((n, f) for n, f in pairs if np.min(f) <= 0), None)
    if gone is not None:
        words, cell = f" of {gone[0]}", _place(-gone[1])
    else:
        # Positive in cells, and not on the faces between them.
        rate = jax.tree.leaves(evolution.terms().vf(t, y, evolution))[0]
        # A source may close over what is differentiated.
        bad = ~np.isfinite(np.asarray(jax.lax.stop_gradient(rate))).all(axis=0)
        words, cell = "", _place(bad if bad.any() else -np.min(fields, axis=0))
    kept = isinstance(getattr(equation, "scheme", None), MUSCL | Upwind)
    advice = "shorter steps may keep it" if kept else "MUSCL keeps it"
    return f"{name} lost positivity{words} at {when} in cell {cell}; {advice}."


def _place(field: np.ndarray) -> int | tuple[int, ...]:
    """The cell in which a field is largest, a number on a line."""
    place = np.unravel_index(int(np.argmax(field)), field.shape)
    cell = tuple(int(i) for i in place)
    return cell[0] if len(cell) == 1 else cell
