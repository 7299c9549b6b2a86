"""MEGNO and the Lyapunov time, from the tangent of a run."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._results import RESULTS
from .._types import Numbers, PyTree
from .._validation import array_of, instance, is_traced
from ..simulations import AbstractSimulation, Method, simulate
from ._bodies_arguments import any_traced
from ._nbody import NBody


class Megno(eqx.Module):
    r"""Chaos indicators of a run, by time.

    **Fields**

    - `times`: as they were given.
    - `values`: the mean MEGNO $\langle Y\rangle$, 2 of regular orbits; shape (time,).
    - `log_growth`: $\ln(|\delta(t)| / |\delta(t_0)|)$, of the tangent; shape (time,).
    - `elapsed`: times since `t0`.
    - `result`: how the run went, successful unless `throw` was False.
    """

    times: Any
    values: Float[Array, "*time"]
    log_growth: Float[Array, "*time"]
    elapsed: Float[Array, "*time"]
    result: RESULTS

    @property
    def lyapunov_times(self) -> Float[Array, "*time"]:
        r"""$T_L = (t - t_0) / \ln(|\delta(t)|/|\delta(t_0)|)$, of growth by e so far.

        Of chaotic orbits it converges; of regular ones it grows as $t/\ln t$.
        """
        return self.elapsed / self.log_growth


def megno(
    simulation: NBody,
    times: Numbers,
    *,
    tangent: Any = None,
    seed: int = 0,
    method: Method | None = None,
    throw: bool | None = None,
) -> Megno:
    r"""Mean exponential growth of nearby orbits: tells regular from chaotic ones.

    $$\langle Y\rangle(t) = \frac1t \int_0^t Y\,ds, \qquad
      Y(t) = \frac2t \int_0^t \frac{\dot\delta\cdot\delta}{\delta^2}\, s\,ds,
      \qquad \dot\delta = \frac{\partial f}{\partial y}\,\delta$$

    of a tangent $\delta$ that is carried along with the run. Of quasi-periodic orbits
    it goes to 2, of chaotic ones it grows as $t / (2 T_L)$, and much earlier than the
    Lyapunov time converges.

    ```python
    orbits = nbody.Elements(semi_major_axis=[1.0, 1.7], true_anomaly=[0.0, 2.0])
    system = nbody.NBody(nbody.Bodies.from_elements([1.0, 1e-4, 1e-4], orbits))
    found = nbody.megno(system, jnp.linspace(50.0, 300.0, 6))
    found.values, found.lyapunov_times
    ```

    **Arguments**

    - `simulation`: bodies under any forces.
    - `times`: where it is wanted, after `t0`, ascending; or one time.
    - `tangent`: positions and velocities of δ at `t0`, each (body, 3); None draws
        normal numbers by `seed`. What it is matters for short runs alone.
    - `method`: None is adaptive, at the tolerance of the default method for the bodies
        and 1e-9 for the tangent; through close encounters `diffrax.Dopri8()` with a
        controller of your own goes on where that stops. Not `IAS15`: the tangent is no
        pair of positions and velocities.
    - `throw`: as of `simulate`.

    **Returns:** a `Megno`, with `values` and `lyapunov_times`.

    **Good values:** a thousand periods of the slowest orbit that matters, and some
    tens of Lyapunov times before a value is called chaotic.

    **Raises:** `ValueError` for times that are not after `t0` and a tangent of another
        shape, or zero.

    **Limits:** Euclidean norm of positions and velocities together, as REBOUND's, in
    units of the system; both limits are those of any norm (mathematics). Symplectic
    solvers do not run it (convenience).

    **References:** P. M. Cincotta, C. M. Giordano and C. Simó, *Phase space structure
    of multi-dimensional systems by means of the mean exponential growth factor of
    nearby orbits*, Physica D 182 (2003) 151, doi:10.1016/S0167-2789(03)00103-9
    """
    instance("simulation", simulation, NBody, "nbody.NBody(bodies)")
    start = _tangent(simulation, tangent, seed)
    if not any_traced(times, t0 := simulation.t0):
        first = float(np.min(np.asarray(times, float), initial=np.inf))
        if first <= float(t0):
            raise ValueError(
                f"times must lie after t0 = {float(t0):.10g}, where the tangent has "
                f"not grown yet, got {first:.10g}"
            )
    varied = _Variations(system=simulation, tangent=start, t0=simulation.t0)
    run = simulate(varied, times, method, throw=throw)
    values, growth, elapsed = run.states
    return Megno(run.times, values, growth, elapsed, run.result)


class _Variations(AbstractSimulation):
    """Bodies, a tangent of length one, and the integrals of its growth.

    The tangent is kept at length one, and the logarithm of its length beside it: after
    700 Lyapunov times the length itself is beyond any float.
    """

    system: NBody
    tangent: tuple[Array, Array]
    t0: float | Array

    def initial_state(self) -> PyTree[Array]:
        zero = jnp.zeros((), self.tangent[0].dtype)
        return self.system.initial_state(), self.tangent, (zero, zero, zero)

    def terms(self) -> diffrax.AbstractTerm[Any, Any]:
        return diffrax.ODETerm(_Rates(self.system.terms()))

    def default_method(self) -> Method:
        own = self.system._checked_default_method()
        controller: Any = own.controller
        adaptive = diffrax.PIDController, "PIDController(rtol=0, atol=1e-10)"
        instance("controller of default_method()", controller, *adaptive)
        norm = _Norm(controller.norm, controller.atol)
        controller = diffrax.PIDController(rtol=0.0, atol=controller.atol, norm=norm)
        return Method(own.solver, controller=controller, max_steps=own.max_steps)

    def observe(self, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        elapsed = jnp.asarray(t - self.t0)
        _, _, (growth, _, area) = y
        started = elapsed > 0
        return area / jnp.where(started, elapsed, 1), growth, elapsed


class _Rates(eqx.Module):
    """Rates of the bodies, of the tangent, and of the integrals."""

    term: diffrax.AbstractTerm

    def __call__(self, t, y, args):
        state, tangent, (_, weighted, _) = y

        def rate(state):
            return self.term.vf(t, state, args.system)

        rates, moved = jax.jvp(rate, (state,), (tangent,))
        growth = sum(jnp.sum(a * b) for a, b in zip(tangent, moved, strict=True))
        turned = jax.tree.map(lambda a, b: b - growth * a, tangent, moved)
        s = t - args.t0
        # Y = 2 weighted / s goes to 0 with s.
        mean = jnp.where(s > 0, 2 * weighted / jnp.where(s > 0, s, 1), 0)
        return rates, turned, (growth, growth * s, mean)


class _Norm(eqx.Module):
    """Errors of the bodies by their own norm; of the tangent, in its units, less."""

    of_bodies: Any
    tolerance: Any

    def __call__(self, error: PyTree[Array]) -> Array:
        state, tangent, (growth, _, _) = error
        largest = [jnp.max(jnp.abs(a)) for a in (*tangent, growth)]
        share = self.tolerance / jnp.maximum(self.tolerance, _OF_TANGENT)
        return jnp.maximum(self.of_bodies(state), share * jnp.max(jnp.stack(largest)))


#: Error of a step in the direction of the tangent.
_OF_TANGENT = 1e-9


def _tangent(simulation: NBody, tangent: Any, seed: int) -> tuple[Array, Array]:
    """A tangent of length one, component first."""
    x, _ = simulation.initial_state()
    if tangent is None:
        rng = np.random.default_rng(seed)
        parts = [jnp.asarray(rng.normal(size=x.shape), x.dtype) for _ in range(2)]
    else:
        positions, velocities = instance(
            "tangent", tangent, (tuple, list), "(positions, velocities)"
        )
        parts = [
            array_of("tangent", part, (x.shape[1], 3)).T.astype(x.dtype)
            for part in (positions, velocities)
        ]
    size = jnp.sqrt(sum(jnp.sum(a * a) for a in parts))
    if not is_traced(size) and not float(size) > 0:
        raise ValueError("tangent must not be zero; None draws one")
    first, second = (a / size for a in parts)
    return first, second
