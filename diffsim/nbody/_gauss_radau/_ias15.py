"""`IAS15`: Gauss–Radau collocation of order 15, for few bodies to machine precision."""

import functools
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import PyTree
from ..._validation import positive
from ._radau_step import (
    Acceleration,
    Collocation,
    Guess,
    RadauInterpolation,
    Span,
    advanced,
    collocate,
    first_guess,
    first_sum,
    weighted,
)
from ._radau_tables import RADAU
from ._timescale_control import TimescaleControl, timescale


#: Changes by the last iteration, in units of the largest acceleration and of the
#: precision: below the first an iteration is at its end, and above the second it is no
#: rounding that changes it.
_DONE, _LOST = 5e3, 6e9

#: The ratio of the changes by two iterations, where neither is rounding.
_FALLING = 0.03


class IAS15(diffrax.AbstractAdaptiveSolver[Any]):
    r"""Gauss–Radau collocation: order 15, steps by timescale, errors by rounding alone.

    $$x(s) = x_0 + h s\, v_0 + h^2\!\int_0^s\!\!\int_0^{s'} a, \qquad
      a = a_0 + \sum_{k=1}^7 b_k s^k$$

    with the b for which a is the acceleration at seven Gauss–Radau nodes, found by
    iteration from the polynomial of the step before; sums are compensated from step to
    step.

    ```python
    system = problems.pythagorean()  # three bodies, which pass at 4e-4
    trajectory = ds.simulate(system, [10.0, 20.0], ds.Method(nbody.IAS15()))
    trajectory.stats["num_steps"]
    ```

    Steps are $h = (5040\,\epsilon)^{1/7}\,\tau$ of the shortest timescale of any body,
    $\tau^2 = 2 |a|^2 / (|\dot a|^2 + |a| |\ddot a|)$: about 35 a circular period. The
    energy error is rounding at random, $10^{-16} \sqrt{n}$ after n periods; behind some
    10⁴ a drift of 1e-18 a period outgrows it, 1e-13 after 10⁵.

    **Arguments**

    - `epsilon`: of the step's length, see above; dimensionless.

    **Good values:** `epsilon` as it is. Anything that is not a nearly Keplerian system
    for millions of periods: close encounters, eccentric orbits, forces that depend on
    velocity or time. For those see `WisdomHolman`.

    **Limits:** states are pairs (x, v) with x' = v (mathematics: it integrates
    accelerations). For few bodies: a step keeps seven accelerations of each. Fixed
    steps, `Method(IAS15(), step=...)`, are to be as short as those it would choose, or
    the iteration does not converge (mathematics). Discontinuous forces are
    integrated with steps that shrink at every jump (mathematics).
    """

    epsilon: float = eqx.field(
        default=1e-9, converter=functools.partial(positive, "epsilon")
    )

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = RadauInterpolation
    #: What a step leaves to the next one spares iterations, and changes no derivative.
    memory_is_a_guess: ClassVar[bool] = True
    references: ClassVar[tuple[str, ...]] = (
        "10.1093/mnras/stu2164",
        "arXiv:2401.02849",
        "10.1007/978-94-009-5400-7_17",
    )

    @property
    def default_controller(self) -> TimescaleControl:
        """Its step-size control, by the timescale of the motion."""
        return TimescaleControl(self.epsilon)

    def check_dynamics(self, terms: Any, t: Array, y: PyTree, simulation: Any):
        """Refuse states that are no positions and velocities."""
        pair = isinstance(y, tuple) and len(y) == 2 and all(map(eqx.is_array, y))
        # While it is traced, the rate of x is v itself.
        if not pair or terms.vf(t, y, simulation)[0] is not y[1]:
            raise ValueError(
                "IAS15 integrates accelerations: initial_state() must be a pair of "
                f"arrays (x, v) and the rate of x must be v itself, got "
                f"{type(simulation).__name__}; take diffrax.Dopri8() for other dynamics"
            )

    def order(self, terms: Any) -> int:
        del terms
        return 15

    def init(self, terms: Any, t0: Any, t1: Any, y0: PyTree, args: Any) -> Guess:
        span, (x, v) = _span(terms, t0, t1), y0
        # A run of no length still has a polynomial.
        h = jnp.where(span.h == 0, jnp.ones_like(span.h), span.h)
        return first_guess(_acceleration(terms, args), span._replace(h=h), x, v)

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: PyTree,
        args: Any,
        solver_state: Guess,
        made_jump: Any,
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], Guess, diffrax.RESULTS]:
        del made_jump
        (x, v), guess, span = y0, solver_state, _span(terms, t0, t1)
        collocation = collocate(_acceleration(terms, args), span, x, v, guess)
        x1, v1, guess = advanced(span.h, x, v, collocation, guess)
        steps = (
            1 / _timescale(collocation),
            jnp.where(_is_converged(collocation), 0.0, 1.0),
        )
        dense = {"x0": x, "v0": v, "h": span.h, "accelerations": collocation[:2]}
        return (x1, v1), steps, dense, guess, diffrax.RESULTS.successful

    def func(self, terms: Any, t0: Any, y0: PyTree, args: Any) -> PyTree:
        return terms.vf(t0, y0, args)


def _span(terms: Any, t0: Any, t1: Any) -> Span:
    """A step on the clock of the solver, and its length with the sign of its time."""
    (h,) = jax.tree.leaves(terms.contr(t0, t1))
    return Span(jnp.asarray(t0), jnp.asarray(t1 - t0), jnp.asarray(h))


def _acceleration(terms: Any, args: Any) -> Acceleration:
    def acceleration(t, x, v):
        return terms.vf(t, (x, v), args)[1]

    return acceleration


def _timescale(collocation: Collocation) -> Array:
    """The timescale of the motion at the end of a step, in units of the step."""
    b = weighted(RADAU.powers, collocation.nodes)
    k = np.arange(1.0, 8.0)
    a = collocation.first + jnp.sum(b, axis=0)
    rates = [first_sum(row, b) for row in (k, k * (k - 1), k * (k - 1) * (k - 2))]
    return timescale(a, *rates)


def _is_converged(collocation: Collocation) -> Array:
    """Whether another iteration would change rounding alone.

    Of close bodies far from the origin that is a large part of their acceleration: it
    does not fall from one iteration to the next. Written so that NaN is not converged.
    """
    before, last = collocation.changes
    unit = jnp.finfo(last.dtype).eps * jnp.max(jnp.abs(collocation.first))
    rounding = (last >= _FALLING * before) & (last <= _LOST * unit)
    return (last <= _DONE * unit) | rounding
