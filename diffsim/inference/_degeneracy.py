"""`Degeneracy`: directions in which data say little."""

import equinox as eqx
import numpy as np
from jaxtyping import Array

from .._text_table import Block, text_representation
from ._information_factor import singular_directions


class Degeneracy(eqx.Module):
    """A direction in which data say little.

    **Fields**

    - `inflation`: how many times less certain it is than its parameters would be if
        each were the only one unknown; inf if no datum determines it.
    - `names`, `weights`: the direction, in units of these single error bars, largest
        weight first; weights below 0.1 are left out.
    """

    inflation: float
    names: tuple[str, ...] = eqx.field(static=True)
    weights: tuple[float, ...]

    @property
    def words(self) -> str:
        """The direction as a sentence."""
        if len(self.names) == 1:
            return f"the data do not determine {self.names[0]}"
        up = [n for n, w in zip(self.names, self.weights, strict=True) if w > 0]
        down = [n for n, w in zip(self.names, self.weights, strict=True) if w < 0]
        change = f"{' and '.join(up)} rising"
        change += f" while {' and '.join(down)} fall" if down else " together"
        if np.isinf(self.inflation):
            return f"the data do not see {change}"
        return (
            f"the data hardly see {change}: known {self.inflation:.3g} times "
            "worse than any of them alone"
        )

    def __repr__(self) -> str:
        return text_representation(self, _direction)


def degeneracies(
    root: Array, names: tuple[str, ...], above: float
) -> tuple[Degeneracy, ...]:
    """Directions of a scaled root `above` times less certain than parameters alone."""
    values, directions, null = map(np.asarray, singular_directions(root))
    with np.errstate(divide="ignore"):
        inflation = np.where(null, np.inf, 1 / values)
    return tuple(
        _degeneracy(names, float(factor), direction)
        for factor, direction in zip(inflation, directions, strict=True)
        if factor >= above
    )


def _degeneracy(
    names: tuple[str, ...], inflation: float, direction: np.ndarray
) -> Degeneracy:
    largest = np.max(np.abs(direction))
    # To six digits: of equals the first, and not the one that rounding favors.
    sizes = np.round(np.abs(direction) / largest, 6)
    order = [i for i in np.argsort(-sizes, kind="stable") if sizes[i] >= 0.1]
    sign = np.sign(direction[order[0]])
    weights = tuple(float(sign * direction[i]) for i in order)
    return Degeneracy(inflation, tuple(names[i] for i in order), weights)


def _direction(found: Degeneracy) -> list[Block]:
    pairs = list(zip(found.weights, found.names, strict=True))
    shown = " ".join(f"{weight:+.2f} {name}" for weight, name in pairs[:6])
    return [shown + (f" and {len(pairs) - 6} more" if len(pairs) > 6 else "")]
