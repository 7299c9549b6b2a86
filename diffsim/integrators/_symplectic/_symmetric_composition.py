"""Compositions of leapfrog by weights of your own."""

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np

from ..._types import Numbers
from ._composition_order import composition_order
from ._symplectic_solver import AbstractSymplecticSolver, symmetric


#: How far from 1 the sum of weights may be, and from its mirror image a weight:
#: rounding of 11 digits.
_ROUNDING = 1e-10


class SymmetricComposition(AbstractSymplecticSolver):
    r"""Symmetric composition of leapfrog steps of given lengths, of any even order.

    $$\Phi_h = S_{w_s h} \circ \dots \circ S_{w_1 h}, \qquad \sum_i w_i = 1, \qquad
      w_i = w_{s+1-i}$$

    ```python
    w = 1 / (4 - 4 ** (1 / 3))  # Suzuki's fractal
    suzuki = integrators.SymmetricComposition([w, w, 1 - 4 * w, w, w])
    suzuki.order()  # 4

    # as most are published: the outer half, with or without the middle one
    suzuki = integrators.SymmetricComposition.from_half([w, w])
    system, times = problems.figure_eight(), jnp.linspace(0.0, 60.0, 200)
    trajectory = ds.simulate(system, times, ds.Method(suzuki, step=0.05))
    jnp.ptp(nbody.energy(system, trajectory.states))
    ```

    For sets of McLachlan, Suzuki, Sofroniou and Spaletta and others. Their order comes
    from the order conditions, which are looked at up to 12.

    **Arguments**

    - `weights`: lengths of all leapfrog steps in units of the whole step; they add up
        to 1 and read the same backwards. Constants, without derivatives.

    **Good values:** all digits that are published, 15 or more. Of one order, the set
    whose largest weight is smallest errs least as a rule. One force evaluation a weight
    and step.

    **Raises:** `ValueError` for weights that do not add up to 1, are not symmetric, or
        have no higher order than leapfrog itself, as with a wrong digit.

    **Limits:** as `Leapfrog`. Above order 2 some step goes back in time (mathematics).
    Methods whose drifts and kicks have coefficients of their own, those of Blanes and
    Moan for instance, are no compositions of leapfrog (convenience).
    """

    weights: tuple[float, ...] = eqx.field(static=True)

    references: ClassVar[tuple[str, ...]] = (
        "10.1137/0916010",
        "10.1016/0375-9601(90)90962-N",
        "10.1098/rsta.1999.0365",
    )

    def __init__(self, weights: Numbers):
        weights = _numbers("weights", weights)
        _check_symmetric(weights)
        _check_order(weights)
        self.weights = weights

    @classmethod
    def from_half(cls, half: Numbers) -> Self:
        """The composition of an outer half, outermost first, and its mirror image.

        **Arguments:** `half`, as published: with the middle weight, which occurs once,
        or without it, where it is what makes the sum 1.

        **Raises:** `ValueError` as the class.
        """
        half = _numbers("half", half)
        outer, middle = half[:-1], half[-1]
        if abs(2 * sum(outer) + middle - 1) < _ROUNDING:
            return cls((*half, *outer[::-1]))
        if abs(2 * sum(half) - 1) < _ROUNDING:
            return cls((*half, *half[::-1]))
        return cls(symmetric(*half))

    def order(self, terms: Any = None) -> int:
        del terms
        return composition_order(self.weights)


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    """Python floats, which keep double precision where JAX is in single."""
    example = "a list of numbers, [w, w, 1 - 4 * w, w, w] say"
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError, jax.errors.TracerArrayConversionError) as error:
        raise ValueError(
            f"{name} must be known while Python runs, {example}, got {values!r:.60}"
        ) from error
    if array.ndim != 1 or not array.size or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be {example}, got {values!r:.60}")
    return tuple(array.tolist())


def _check_symmetric(weights: tuple[float, ...]):
    total = sum(weights)
    if abs(total - 1) > _ROUNDING:
        raise ValueError(
            f"weights must add up to 1, got {total:.12g} of {len(weights)}; of a table "
            "of the outer half, SymmetricComposition.from_half(...) makes all"
        )
    for i, (one, other) in enumerate(zip(weights, weights[::-1], strict=True)):
        if abs(one - other) > _ROUNDING:
            raise ValueError(
                "weights must read the same backwards, got weights"
                f"[{i}] = {one:.12g} and weights[{-1 - i}] = {other:.12g}; others have "
                "no time symmetry, of which the order conditions and Reversible make "
                "use"
            )


def _check_order(weights: tuple[float, ...]):
    if len(weights) == 1 or composition_order(weights) > 2:
        return
    cubes = sum(w**3 for w in weights)
    raise ValueError(
        f"weights must have cubes that add up to 0, got {cubes:.3g}: their order is 2, "
        "as of leapfrog; check their digits, 11 at least, or take shorter steps of "
        "Leapfrog()"
    )
