"""`recommend_method`: fixed steps for orbits that are known."""

from typing import Any

import numpy as np

from .._validation import check_type, is_traced
from ..integrators import KahanLi8
from ..simulations import Method, Separable
from ._closest_pair import pair_names
from ._nbody import NBody


#: Steps in the time of a turn at the angular speed of the pericenter.
_STEPS = 60

#: Above it steps that shrink at the pericenter cost less than the shortest at all.
_ECCENTRIC = 0.3


def recommend_method(system: Any) -> Method:
    r"""Return a method for the orbits of `system` at `t0`, and print why.

    ```python
    system = problems.variations()
    method = nbody.recommend_method(system)
    ds.simulate(system, jnp.linspace(0.0, 100.0, 50), method)
    ```

    `KahanLi8` at fixed steps, 1/60 of the shortest

    $$T_q = 2\pi \sqrt{\frac{q^3}{\mu\,(1 + e)}}$$

    of all pairs that are bound to each other: q is the pericenter distance, and
    $T_q$ is the period of a circular orbit. The result of fixed steps is a smooth
    function of the parameters. Where periods are alike they are faster than the
    default's (two planets, 5 times), and where one is far shorter than the others they
    are not (the Solar System, 0.8 times).

    The default method where that does not serve: forces that depend on velocity, which
    the symplectic `KahanLi8` does not take, no pair that is bound, or an eccentricity
    above 0.3. Take the default for close encounters as well, which the orbits at `t0`
    do not tell.

    **Arguments:** `system`, concrete: the step is a Python number, fixed while tracing.

    **Raises:** `ValueError` while tracing.
    """
    check_type("system", system, NBody, "nbody.NBody(bodies)")
    if is_traced(system.bodies.positions) or is_traced(system.bodies.masses):
        raise ValueError(
            "recommend_method needs concrete bodies, and these are traced: call it "
            "outside jit, grad and fit, and hand its method over"
        )
    if not isinstance(system.terms(), Separable):
        return _default(system, "forces depend on velocity")
    found = _shortest_orbit(system)
    if found is None:
        return _default(system, "no two bodies are bound to each other")
    time, eccentricity, pair = found
    if eccentricity > _ECCENTRIC:
        why = f"the orbit of {pair} has an eccentricity of {eccentricity:.2g}"
        return _default(system, why)
    step = _rounded_down(time / _STEPS)
    print(
        f"KahanLi8 at step {step:g}, {_STEPS} a pericenter time of {time:.4g} "
        f"({pair}); keep the default, method=None, for close encounters"
    )
    return Method(KahanLi8(), step=step)


def _default(system: NBody, why: str) -> Method:
    print(f"the default, adaptive Dopri8: {why}, and fixed steps would not serve")
    return system.default_method()


def _shortest_orbit(system: NBody) -> tuple[float, float, str] | None:
    """Time, eccentricity and names of the pair with the shortest pericenter time."""
    if system.gravity is None:
        return None
    masses = np.asarray(system.bodies.masses, float)
    gm = float(system.gravity.G) * np.pad(masses, (0, _test_particles(system)))
    x, v = (np.asarray(a, float).T for a in system.initial_state())
    best = None
    for j in range(masses.size):
        others = np.arange(len(x)) > j
        time, e = _pericenter_times(
            x[others] - x[j], v[others] - v[j], gm[others] + gm[j]
        )
        i = int(np.argmin(time)) if time.size else 0
        if time.size and time[i] < (np.inf if best is None else best[0]):
            best = float(time[i]), float(e[i]), pair_names(system, j, j + 1 + i)
    return best


def _pericenter_times(x, v, mu) -> tuple[np.ndarray, np.ndarray]:
    """Infinity for pairs that are not bound."""
    with np.errstate(all="ignore"):
        r = np.linalg.norm(x, axis=1)
        energy = np.sum(v * v, 1) / 2 - mu / r
        p = np.sum(np.cross(x, v) ** 2, 1) / mu
        e = np.sqrt(np.maximum(1 + 2 * energy * p / mu, 0))
        q = p / (1 + e)
        time = 2 * np.pi * np.sqrt(q**3 / (mu * (1 + e)))
    return np.where((energy < 0) & np.isfinite(time), time, np.inf), e


def _test_particles(system: NBody) -> int:
    return 0 if system.test_particles is None else len(system.test_particles.positions)


def _rounded_down(step: float) -> float:
    """Two digits of it: a step that one can write down."""
    unit = 10.0 ** (np.floor(np.log10(step)) - 1)
    return float(np.floor(step / unit) * unit)
