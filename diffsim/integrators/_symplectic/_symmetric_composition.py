"""Compositions of leapfrog by weights of your own, and their order."""

import functools
import math
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np

from ..._types import Numbers
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


#: The largest power of the step that is looked at: orders up to one more are found.
_HIGHEST = 11
#: Rounding of weights to 11 digits leaves this of a condition, whose terms add up to 1
#: without their signs. One that is not met leaves 1e-3, even of order 10.
_MET = 1e-10

#: A product of the operators Y₁, Y₃, ..., by their indices.
_Word = tuple[int, ...]


@functools.lru_cache(maxsize=64)
def composition_order(weights: tuple[float, ...]) -> int:
    r"""The largest even order, up to 12, whose conditions these symmetric weights meet.

    Leapfrog is $S_h = \exp(h Y_1 + h^3 Y_3 + h^5 Y_5 + \dots)$, with operators that do
    not commute. The composition is a sum over products of these, and of order p where
    it is $\exp(h Y_1)$ up to the power p of h.
    """
    words = _words()
    coefficients: dict[_Word, float] = {(): 1.0}
    sizes = coefficients
    for w in weights:
        coefficients = {word: _appended(coefficients, word, w) for word in words}
        sizes = {word: _appended(sizes, word, abs(w)) for word in words}
    for power in range(3, _HIGHEST + 1, 2):
        # Even powers follow: the composition is time-symmetric.
        for word in words:
            flow = 1 / math.factorial(power) if len(word) == power else 0.0
            missed = abs(coefficients[word] - flow) > _MET * sizes[word]
            if sum(word) == power and missed:
                return power - 1
    return _HIGHEST + 1


def _appended(before: dict[_Word, float], word: _Word, w: float) -> float:
    """The coefficient of `word` after one more leapfrog step, of length w."""
    return math.fsum(
        before[word[:k]] * w ** sum(word[k:]) / math.factorial(len(word) - k)
        for k in range(len(word) + 1)
        if word[:k] in before
    )


@functools.cache
def _words() -> tuple[_Word, ...]:
    """Products of odd indices that add up to the highest power or less."""
    words: list[_Word] = [()]
    for word in words:
        room = _HIGHEST - sum(word)
        words.extend((*word, index) for index in range(1, room + 1, 2))
    return tuple(words)
