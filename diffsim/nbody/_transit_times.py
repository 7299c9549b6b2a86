"""`transit_times` of planets in front of their star.

Light travel time (the Rømer delay) and contacts of discs are in `_transits.py`.
"""

import itertools
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._jit._fresh_jit import fresh_jit
from .._results import RESULTS, nan_unless, raise_if_failed, should_raise
from .._types import Numbers
from .._validation import (
    as_floating,
    finite,
    instance,
    is_traced,
    not_negative,
    positive,
    scalar,
)
from ..simulations import Event, Method, simulate
from ._bodies_arguments import any_traced, body_label, body_number
from ._nbody import NBody
from ._sky_positions import OBSERVER, sky_separations, toward_observer
from ._transits import Conjunction, InFront, Seen, View, length, seen_transits


#: Transits of a planet whose period nobody knows, and room beyond what a period says.
_UNKNOWN, _SPARE = 16.0, 4

#: Rounding that times of transits may have, as a part of the way from `t0` to `until`.
_COARSE = 1e-5


class Request(NamedTuple):
    """Planets as they were named, their numbers, and epochs; None is every one."""

    star: int
    keys: tuple[Any, ...]
    planets: tuple[int, ...]
    epochs: tuple[tuple[int, ...], ...] | None
    until: float


class TransitTimes(eqx.Module):
    """Transits by planet: dicts whose keys are the names or numbers as they were given.

    **Fields**

    - `times`: of least separation on the sky, shape (epoch,); for `fit` as they are.
    - `epochs`: their numbers, 0 for the first after `t0`.
    - `separations`: of the centers on the sky at these times, a length.
    - `speeds`: of the planet past the star, on the sky; length / time.
    - `impact_parameters`: separations in radii of the star; None without `star_radius`.
    - `durations`: from first to last contact, NaN of those that miss the star; None
        without `star_radius`.
    - `result`: how it went, successful unless `throw` was False.
    """

    times: dict[Any, Float[Array, " epoch"]]
    epochs: dict[Any, Int[Array | np.ndarray, " epoch"]]
    separations: dict[Any, Float[Array, " epoch"]]
    speeds: dict[Any, Float[Array, " epoch"]]
    impact_parameters: dict[Any, Float[Array, " epoch"]] | None
    durations: dict[Any, Float[Array, " epoch"]] | None
    result: RESULTS

    @property
    def planets(self) -> tuple[Any, ...]:
        """The planets, as they were given."""
        return tuple(self.times)


def transit_times(
    simulation: NBody,
    planets: Any = None,
    *,
    until: float,
    star: int | str = 0,
    observer: Numbers = OBSERVER,
    occultations: bool = False,
    c: Numbers | None = None,
    star_radius: Numbers | None = None,
    planet_radius: Any = 0.0,
    method: Method | None = None,
    throw: bool | None = None,
) -> TransitTimes:
    r"""Times at which planets pass in front of their star, all forces included.

    A transit is a minimum of the separation on the sky with the planet on the near
    side, whether or not the discs overlap: with $d$ from the star to the planet and
    $\hat n$ the direction to the observer,

    $$g = d_\perp \cdot \dot d_\perp = 0, \quad \dot g > 0, \quad d \cdot \hat n > 0,
    \qquad \frac{dt}{d\theta} = -\frac{\partial g / \partial\theta}{\dot g}.$$

    ```python
    orbits = nbody.Elements(
        semi_major_axis=[0.1, 0.16], inclination=[1.57, 1.56], true_anomaly=[1.0, 4.0]
    )
    G, names = nbody.G["au, Msun, day"], ["star", "b", "c"]

    def system(masses):
        masses = jnp.append(1.0, masses)
        bodies = nbody.Bodies.from_elements(masses, orbits, G=G, names=names)
        return nbody.NBody(bodies, nbody.Gravity(G))

    masses = jnp.array([2e-5, 4e-5])
    found = nbody.transit_times(system(masses), until=60.0, star_radius=0.00465)
    found.times["b"], found.epochs["b"], found.durations["c"]  # every one

    def predict(masses):  # those of the data, in fit, jit and derivatives
        epochs = {"b": [0, 1, 3], "c": [0, 2]}
        return nbody.transit_times(system(masses), epochs, until=60.0).times

    jax.jacfwd(predict)(masses)["b"]  # shape (3, 2)
    ```

    **Arguments**

    - `simulation`: begins at `t0`, and epochs are counted from there.
    - `planets`: names or numbers of bodies, for all transits; None is all but the star.
        Or epochs by those, `{"b": [0, 1, 3], "c": [0, 2]}`, ascending integers: those
        alone, which is the way where the system is traced.
    - `until`: a time beyond the last transit, concrete.
    - `star`: name or number of what is passed.
    - `observer`: direction from the system to the observer, as of `radial_velocity`; by
        default on the negative z axis, so that inclination π/2 is edge-on.
    - `occultations`: whether planets pass behind the star instead.
    - `c`: speed of light in the units of the system, 173.1446 au/day. With it times are
        those at which the light that grazes the planet is seen, less its travel from
        the origin of coordinates, and the star is seen where it was (Rømer delay).
    - `star_radius`: a length; gives `impact_parameters` and `durations`.
    - `planet_radius`: a length, or a dict of them by planet; for contacts of discs.
    - `method`: how the run is made; None is the system's default.
    - `throw`: whether a failure raises, as of `simulate`.

    **Returns:** `TransitTimes`, in every planet's own length; nothing is padded.

    **Good values:** `t0` half a period before the first transit that counts, since one
        that a fit moves across `t0` changes all numbers; the default method, which
        compiles in a third of the time of Kepler steps; or `diffrax.Dopri8()` at fixed
        steps of $T_q/30$, where $T_q$ is that of `recommend_method`: after 30 periods
        within 5e-8 of one, at eccentricities up to 0.8.

    **Raises:** `ValueError` for a planet that is not there, epochs that do not ascend,
        an `until` before `t0`, radii that are not positive, and, with `star_radius`, a
        planet whose every transit misses the star; `RuntimeError` for an epoch that
        does not happen before `until`, at run time under `jit`. In `fit` it makes that
        trial step fail.

    **Limits:** a planet that meets the star twice within one step is not seen
    (convenience; take shorter steps). At a grazing contact the derivative of the
    duration is infinite (mathematics). The motion of the origin itself is not in the
    light travel time (convenience).
    """
    instance("simulation", simulation, NBody, "nbody.NBody(bodies)")
    request = _request(simulation, planets, star, until)
    n = toward_observer(observer)
    radii = _radii_in_order(request, star_radius, planet_radius)
    if c is not None:
        hint = "the speed of light in the units of the system"
        c = as_floating("c", positive("c", c, hint))
    view = View(n, request.star, c)
    records = _records(simulation, request, n, occultations, method, throw)
    counts = [record.count for record in records]
    if request.epochs is None:
        epochs = tuple(tuple(range(int(count))) for count in counts)
        request = request._replace(epochs=epochs)
    seen, result = _seen(simulation, view, request, records, radii)
    if not should_raise(throw):
        successful = jnp.asarray(result == RESULTS.successful)
        return _by_planet(request, nan_unless(seen, successful), radii, result)
    if not result.is_traced():
        _check_all_there(simulation, request, n, counts)
    transits = _by_planet(request, raise_if_failed(seen, result), radii, result)
    if not any_traced(transits):
        _check_overlap(simulation, request, transits, radii)
    return transits


def _request(simulation: Any, planets: Any, star: Any, until: Any) -> Request:
    """The request in numbers."""
    center = body_number(simulation, star, "star")
    until, t0 = float(finite("until", scalar("until", until))), simulation.t0
    if not is_traced(t0) and not until > float(t0):
        raise ValueError(f"until must lie after t0 = {float(t0):g}, got {until:g}")
    _warn_of_coarse_dates(t0, until)
    if planets is None:
        count = len(simulation.initial_state()[0].T)
        names = simulation.body_names or range(count)
        planets = [names[i] for i in range(count) if i != center]
    one = isinstance(planets, str | int | np.integer)
    keys = (planets,) if one else tuple(planets)
    numbers = tuple(body_number(simulation, key, "planets") for key in keys)
    if len({center, *numbers}) <= max(len(numbers), 1):
        raise ValueError(
            "planets must be one or several, which differ from each other and from the "
            f"star, got {list(keys)}; None is all, star= says which body is passed"
        )
    epochs = None
    if isinstance(planets, Mapping):
        epochs = tuple(_epoch_numbers(key, planets[key]) for key in keys)
    elif any_traced(simulation):
        raise ValueError(
            "planets must say which epochs where the system is traced, as in fit, jit "
            "and grad: how many transits there are is known only when it runs. Give "
            'those of the data, {"b": [0, 1, 3], "c": [0, 2]}'
        )
    return Request(center, keys, numbers, epochs, until)


def _epoch_numbers(key: Any, epochs: Any) -> tuple[int, ...]:
    numbers = np.asarray(epochs)
    whole = numbers.ndim == 1 and numbers.size > 0 and numbers.dtype.kind in "iu"
    if not whole or np.any(np.diff(numbers, prepend=-1) <= 0):
        raise ValueError(
            f"epochs of planet {key!r} must be integers that ascend from 0 or more, 0 "
            f"for the first after t0, got {epochs!r:.60}"
        )
    return tuple(numbers.tolist())


def _warn_of_coarse_dates(t0: Any, until: float):
    """Warn of dates that come back in single precision, a quarter of a day apart."""
    if is_traced(t0) or jnp.result_type(float) != np.float32:
        return
    way, apart = until - float(t0), float(np.spacing(np.float32(abs(until))))
    if abs(until) > 10 * way and apart > _COARSE * way:
        warnings.warn(
            f"times of transits near {until:.8g} come back in float32, which resolves "
            f"{apart:.2g} there; subtract a date of your choice from t0 and until",
            # this function, `_request`, transit_times, the caller
            stacklevel=4,
        )


def _radii_in_order(
    request: Request, star_radius: Any, planet_radius: Any
) -> tuple[Array, Array] | None:
    """The radius of the star, and those of the planets in their order."""
    if isinstance(planet_radius, Mapping):
        planet_radius = [planet_radius[key] for key in request.keys]
    not_negative("planet_radius", planet_radius)
    if star_radius is None:
        return None
    positive("star_radius", star_radius, "the star's, in units of length")
    each = jnp.asarray(as_floating("planet_radius", planet_radius))
    return as_floating("star_radius", star_radius), jnp.broadcast_to(
        each, (len(request.planets),)
    )


def _records(simulation, request: Request, n, behind: bool, method, throw):
    """Records of each planet's conjunctions."""
    if request.epochs is None:
        limits = _estimated_limits(simulation, request)
    else:
        limits = tuple(max(some) + 1 for some in request.epochs)
    while True:
        events = tuple(
            Event(
                Conjunction(n, planet, request.star),
                direction="up",
                limit=limit,
                where=InFront(n, planet, request.star, behind),
                surplus="ignore",
            )
            for planet, limit in zip(request.planets, limits, strict=True)
        )
        run = simulate(simulation, request.until, method, events=events, throw=throw)
        if request.epochs is not None:
            return run.events
        # There may be more than were estimated.
        full = [int(e.count) == n for e, n in zip(run.events, limits, strict=True)]
        if not any(full):
            return run.events
        limits = tuple(2 * n if f else n for n, f in zip(limits, full, strict=True))


def _estimated_limits(simulation: Any, request: Request) -> tuple[int, ...]:
    """How many transits there are, and a few more, by the periods at `t0`."""
    x, v = (np.asarray(a, float).T for a in simulation.initial_state())
    span, star = request.until - float(simulation.t0), request.star
    counts = [_UNKNOWN for _ in request.planets]
    if simulation.gravity is not None:
        masses = np.asarray(simulation.bodies.masses, float)
        gm = float(simulation.gravity.G) * np.pad(masses, (0, len(x) - masses.size))
        for k, planet in enumerate(request.planets):
            total = gm[star] + gm[planet]
            d, w = x[planet] - x[star], v[planet] - v[star]
            # The run itself says that two bodies are in one place.
            if not total > 0 or not np.any(d):
                continue
            inverse_a = 2 / np.linalg.norm(d) - np.sum(w * w) / total
            if inverse_a > 0:
                period = 2 * np.pi / np.sqrt(total * inverse_a**3)
                counts[k] = 1.1 * span / period + _SPARE
    # Few sizes, so that few programs are compiled.
    return tuple(2 ** int(np.ceil(np.log2(max(count, 4)))) for count in counts)


@fresh_jit
def _seen(simulation, view: View, request: Request, records, radii):
    """Observations at all epochs, planet by planet, and whether all of them happen."""
    assert request.epochs is not None
    picks = [np.asarray(some, int) for some in request.epochs]
    lengths = [pick.size for pick in picks]

    def joined(leaves):
        return jnp.concatenate([a[i] for a, i in zip(leaves, picks, strict=True)])

    times = joined([record.times for record in records])
    states = jax.tree.map(lambda *a: joined(a), *(record.states for record in records))
    planets = jnp.asarray(np.repeat(request.planets, lengths))
    reach = None
    if radii is not None:
        reach = jnp.repeat(radii[0] + radii[1], np.asarray(lengths))
        reach = reach.astype(states.positions.dtype)
    if radii is None and view.c is None:
        # All of it is recorded already.
        every, n = np.arange(planets.size), view.observer.astype(states.positions.dtype)
        d, w = (
            a[every, planets] - a[:, view.star]
            for a in (states.positions, states.velocities)
        )
        d, w = (a - jnp.sum(a * n, axis=1, keepdims=True) * n for a in (d, w))
        seen = Seen(times, length(d), length(w), None)
    else:
        seen = seen_transits(simulation, view, planets, times, states, reach)
    there = jnp.all(~jnp.isnan(times))
    return seen, RESULTS.where(there, RESULTS.successful, RESULTS.transit_missing)


def _by_planet(request: Request, seen: Seen, radii: Any, result: Any) -> TransitTimes:
    assert request.epochs is not None
    bounds = np.cumsum([0, *map(len, request.epochs)])
    spans = dict(zip(request.keys, itertools.pairwise(bounds), strict=True))

    def parts(array):
        return {key: array[i:j] for key, (i, j) in spans.items()}

    epochs = zip(request.keys, request.epochs, strict=True)
    return TransitTimes(
        parts(seen.times),
        {key: np.asarray(some, int) for key, some in epochs},
        parts(seen.separations),
        parts(seen.speeds),
        None if radii is None else parts(seen.separations / radii[0]),
        None if seen.durations is None else parts(seen.durations),
        result,
    )


def _check_all_there(simulation, request: Request, n, counts):
    """Raise for an epoch that was not met, with what was met instead."""
    assert request.epochs is not None
    for planet, epochs, count in zip(
        request.planets, request.epochs, counts, strict=True
    ):
        if not epochs or epochs[-1] < int(count):
            continue
        nearest = _nearest(simulation, request, n, planet)
        raise RuntimeError(
            f"{body_label(simulation, planet)} has {int(count)} transits before until "
            f"= {request.until:.10g}, and epoch {epochs[-1]} is asked for, counted "
            f"from 0 at t0; give a later until{nearest}"
        )


def _nearest(simulation, request: Request, n, planet: int) -> str:
    """How near a planet comes to the star on the sky, the end of a sentence."""
    if any_traced(simulation, n):
        return ""
    times = np.linspace(float(simulation.t0), request.until, 2001)[1:]
    states = simulate(simulation, times).states
    star = request.star
    apart = sky_separations(simulation, states, relative_to=star, observer=n)
    return f". On the sky it comes within {float(jnp.min(apart[:, planet])):.6g} of it"


def _check_overlap(simulation, request: Request, transits: TransitTimes, radii: Any):
    """Raise for a planet that never touches the disc of the star."""
    for planet, key in zip(request.planets, request.keys, strict=True):
        if transits.durations is None or not transits.durations[key].size:
            continue
        if np.all(np.isnan(transits.durations[key])):
            nearest = float(np.min(np.asarray(transits.separations[key])))
            raise ValueError(
                f"{body_label(simulation, planet)} never transits: it passes "
                f"{nearest:.6g} from the center of the star, {nearest / radii[0]:.4g} "
                "of its radii; without star_radius its conjunctions are found"
            )
