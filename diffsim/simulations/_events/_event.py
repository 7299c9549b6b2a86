"""`Event`: condition, direction, reset and limit."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._jaxpr._tracing import explain_tracer_errors
from ..._types import PyTree
from ..._validation import function_of


_DIRECTIONS = (None, "up", "down")
_SURPLUS = ("fail", "ignore")


class Event(eqx.Module):
    r"""Zero crossing of a function of the run, $g(t, y;\,\theta) = 0$.

    ```python
    def crossing(t, state, simulation):  # body 1 passes before body 0
        return state.positions[1, 1] - state.positions[0, 1]

    transit = simulations.Event(crossing, direction="up", limit=4)
    trajectory = ds.simulate(problems.kepler(), 20.0, events=transit, step=0.05)
    trajectory.events[0].times  # padded with NaN
    ```

    It is located to machine precision, and its time and state are differentiated as
    what they are, solutions of $g(t_*, y(t_*;\,\theta);\,\theta) = 0$:

    $$\frac{dt_*}{d\theta} = -\frac{\partial g/\partial\theta}{\dot g}.$$

    After a reset the run goes on from $(t_*, R(y_*))$ with that derivative (the
    saltation matrix), in every mode and to any order.

    **Arguments**

    - `condition`: `condition(t, state, simulation)`, one floating number. The state is
        what `simulation.observe` makes of it, for `NBody` a `nbody.State`.
    - `direction`: `"up"` for crossings from below zero, `"down"` from above, None for
        both.
    - `limit`: how many can be recorded. More are a failure of the run.
    - `surplus`: `"fail"`, or `"ignore"` to record the first `limit` and pass over more.
    - `where`: `where(t, state, simulation)`, a bool: no crossing counts in a step at
        whose beginning it is False, as of a Poincaré section on one side. None counts
        all; not for an event that ends or resets the run.
    - `terminal`: whether the run ends there. Outputs after it are NaN.
    - `reset`: `reset(t, y, simulation)`, the state to go on with, from and to the
        internal one that `initial_state` returns; None changes nothing. With
        `terminal` as well it is the state that the run ends in.

    A condition that is zero at the epoch itself is no event: it counts as past.

    **Limits:** g is looked at after every step, so two crossings within one step are
    not seen (convenience; take shorter steps). Where g only touches zero there is no
    derivative (mathematics). A change of sign at a jump or a pole, as of an angle that
    wraps, is no event: a record passes over it, though it takes a place of `limit`, and
    a run that it would end or reset fails. A rate that branches where g is zero, as
    `jnp.where(t < q, ...)` does, is asked on both sides of it within a step and has a
    wrong derivative: keep the mode in the state, where `reset` sets it. A run with
    events keeps all of its steps in memory.

    **References:** M. A. Aizerman and F. R. Gantmacher, *Determination of stability by
    linear approximation of a periodic solution of a system of differential equations
    with discontinuous right-hand sides*, Q. J. Mech. Appl. Math. 11 (1958) 385,
    doi:10.1093/qjmam/11.4.385 (the saltation matrix)
    """

    condition: Callable[[Array, PyTree, Any], Array]
    direction: str | None = eqx.field(static=True, default=None, kw_only=True)
    limit: int = eqx.field(static=True, default=16, kw_only=True)
    terminal: bool = eqx.field(static=True, default=False, kw_only=True)
    reset: Callable[[Array, PyTree[Array], Any], PyTree[Array]] | None = eqx.field(
        default=None, kw_only=True
    )
    surplus: str = eqx.field(static=True, default="fail", kw_only=True)
    where: Callable[[Array, PyTree, Any], Array] | None = eqx.field(
        default=None, kw_only=True
    )

    def __check_init__(self) -> None:
        if self.direction not in _DIRECTIONS:
            raise ValueError(
                f"direction must be 'up', 'down' or None, got {self.direction!r}"
            )
        function_of("condition", self.condition, ("t", "state", "simulation"))
        if self.reset is not None:
            function_of("reset", self.reset, ("t", "y", "simulation"))
        whole = isinstance(self.limit, int) and not isinstance(self.limit, bool)
        if not whole or self.limit < 1:
            raise ValueError(f"limit must be 1 or more, an int, got {self.limit!r}")
        if self.surplus not in _SURPLUS:
            raise ValueError(
                f"surplus must be 'fail' or 'ignore', got {self.surplus!r}"
            )
        if self.where is not None:
            function_of("where", self.where, ("t", "state", "simulation"))
        if self.modifies_run and (self.where is not None or self.surplus != "fail"):
            raise ValueError(
                "an event with terminal or reset acts wherever it happens: leave "
                "where=None and surplus='fail', and put the choice into reset"
            )

    def value(self, t: Array, y: PyTree[Array], simulation: Any) -> Array:
        """g at an internal state."""
        state = simulation.observe(t, y)
        with explain_tracer_errors("condition", self.condition):
            return self.condition(t, state, simulation)

    def counts(self, t: Array, y: PyTree[Array], simulation: Any) -> Array:
        """Whether crossings in a step that begins here count."""
        if self.where is None:
            return jnp.asarray(True)
        with explain_tracer_errors("where", self.where):
            return jnp.asarray(
                self.where(t, simulation.observe(t, y), simulation), bool
            )

    @property
    def modifies_run(self) -> bool:
        """Whether the run is another one after it."""
        return self.terminal or self.reset is not None


class EventRecord(eqx.Module):
    """When one `Event` happened, padded with NaN to its `limit`.

    Of integers that are observed the padding is the least of their type, of unsigned
    ones the greatest, and of booleans False: they keep their type, which has no NaN.

    - `times`: ascending, shape (limit,).
    - `states`: observed states there, before a reset, with a leading axis `limit`.
    - `count`: how many of them were recorded.
    """

    times: Float[Array | np.ndarray, " limit"]
    states: PyTree[Array]
    count: Int[Array, ""]
