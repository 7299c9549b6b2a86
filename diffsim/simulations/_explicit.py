"""Explicit steps with nothing to choose: one-step maps and unrolled Runge–Kutta."""

import abc
from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._separable import Separable


class AbstractOneStepSolver(diffrax.AbstractSolver):
    """A solver of `Separable` dynamics whose step is a map of the state alone.

    It has no memory and no error estimate. Subclasses say `advance`; Diffrax sees a
    solver like any other.
    """

    term_structure: ClassVar = Separable
    #: Whether a step of length −h undoes a step of length h.
    time_symmetric: ClassVar[bool] = False
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    @property
    @abc.abstractmethod
    def evaluations(self) -> int:
        """Evaluations of the vector field a step."""

    @abc.abstractmethod
    def advance(
        self, terms, t0, length: Array, y: PyTree[Array], args
    ) -> PyTree[Array]:
        """The state at `t0 + length`, from `y` at `t0`."""

    def init(self, terms, t0, t1, y0, args):
        del terms, t0, t1, y0, args

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        del solver_state, made_jump
        length = terms.contr(t0, t1)
        halves = _halves(terms, y0, t0, length / (t1 - t0))
        y1 = self.advance(halves, t0, length, y0, args)
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def is_explicit(solver: diffrax.AbstractSolver) -> bool:
    """Whether `explicit_step` serves `solver`."""
    if isinstance(solver, diffrax.AbstractERK):
        return isinstance(solver.tableau, diffrax.ButcherTableau)
    return isinstance(solver, AbstractOneStepSolver)


def explicit_step(
    solver, terms, t0: Array, length: Array, y: PyTree[Array], args
) -> PyTree[Array]:
    r"""One explicit step, $y_1 = y_0 + h\sum_i b_i k_i$, its stages written out.

    The same map as `solver.step`, without the loop over stages, the error estimate and
    the dense output, none of which a fixed step needs.
    """
    if isinstance(solver, AbstractOneStepSolver):
        return solver.advance(terms, t0, length, y, args)
    tableau = solver.tableau
    # Stages behind the last one that the solution uses only estimate its error.
    used = int(np.flatnonzero(tableau.b_sol)[-1]) + 1
    rows = [np.zeros(0), *tableau.a_lower][:used]
    nodes = [0.0, *tableau.c][:used]
    true = _is_number(y)
    rates = []
    for row, node in zip(rows, nodes, strict=True):
        stage = _made_once(_combined(y, row, rates), true)
        t = t0 + float(node) * length
        rates.append(terms.vf_prod(t, stage, args, length))
    return _combined(y, tableau.b_sol[:used], rates)


def _is_number(y: PyTree[Array]) -> Array:
    """True as far as anybody but the compiler knows; false beside NaN."""
    first = jax.tree.leaves(y)[0].reshape(-1)[0]
    return first == first


def _made_once(y: PyTree[Array], true: Array) -> PyTree[Array]:
    """`y`, divided by 1.

    XLA works out a sum again wherever it is read, for every pair of bodies say, but a
    division once. It is exact, and Dopri8 of 5 bodies takes 1.9 instead of 6.6 us a
    step, its gradient 12 instead of 24.
    """
    return jax.tree.map(lambda a: a / true.astype(jnp.finfo(a.dtype).dtype), y)


def _halves(terms, y0, t0, sign) -> Separable:
    """A Separable that Diffrax has wrapped to run either way, by its vector field.

    Diffrax has checked what it wrapped, and its time runs forwards even where `sign` is
    negative. The unused half of each evaluation is dropped by the compiler.
    """

    def rates(t, x, v, args):
        return terms.vf(t0 + sign * (t - t0), (x, v), args)

    return Separable(
        lambda t, v, args: rates(t, y0[0], v, args)[0],
        lambda t, x, args: rates(t, x, y0[1], args)[1],
    )


def _combined(y, weights: np.ndarray, rates: list) -> PyTree[Array]:
    for weight, rate in zip(weights.tolist(), rates, strict=True):
        if weight != 0:
            y = jax.tree.map(lambda a, b, w=weight: a + w * b, y, rate)
    return y
