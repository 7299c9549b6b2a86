"""`transit_times` of planets in front of their star.

Light travel time (the Rømer delay) and contacts of discs are in `_transits.py`.
"""

import itertools
import warnings
from collections.abc import Mapping, Sequence
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
    check_unitless,
    instance,
    is_traced,
    not_negative,
    positive,
)
from ..simulations import Event, Method, simulate
from ._bodies import State
from ._nbody import NBody
from ._sky_positions import (
    OBSERVER,
    any_traced,
    body_label,
    body_number,
    sky_separations,
    toward_observer,
)
from ._transits import Conjunction, InFront, Seen, View, length, seen_transits


class Request(NamedTuple):
    """Planets as they were named, their numbers, and epochs; None is every one."""

    star: int
    keys: tuple[Any, ...]
    planets: tuple[int, ...]
    epochs: tuple[tuple[int, ...], ...] | None
    until: float

    @property
    def limits(self) -> tuple[int, ...] | None:
        """How many transits of each planet matter."""
        if self.epochs is None:
            return None
        return tuple(max(some) + 1 for some in self.epochs)


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

    **Raises:** `ValueError` for a planet that is not there or not bound to the others,
        epochs that do not ascend, an `until` before `t0`, radii that are not positive,
        and, with `star_radius`, a planet whose every transit misses the star;
        `RuntimeError` for an epoch that does not happen before `until`, at run time
        under `jit`. In `fit` it makes that trial step fail.

    **Limits:** a planet that meets the star twice within one step is not seen
    (convenience; take shorter steps). At a grazing contact the derivative of the
    duration is infinite (mathematics). The motion of the origin itself is not in the
    light travel time (convenience).
    """
    instance("simulation", simulation, NBody, "nbody.NBody(bodies)")
    request = checked_request(simulation, planets, star, until)
    n = toward_observer(observer)
    radii = _checked_radii(request, star_radius, planet_radius)
    if c is not None:
        positive("c", c, "the speed of light in the units of the system")
        c = as_floating("c", c)
    view = View(n, request.star, c)
    records = _records(simulation, request, n, occultations, method, throw)
    counts = [record.count for record in records]
    if request.epochs is None:
        epochs = tuple(tuple(range(int(count))) for count in counts)
        request = request._replace(epochs=epochs)
    seen, result = _seen(simulation, view, request, records, radii)
    if not should_raise(throw):
        fine = result == RESULTS.successful
        return _by_planet(request, nan_unless(seen, jnp.asarray(fine)), radii, result)
    known = not result.is_traced()
    if known:
        _check_all_there(simulation, request, n, counts)
    seen = raise_if_failed(seen, result)
    found = _by_planet(request, seen, radii, result)
    if known and not any_traced(found):
        _check_overlap(simulation, request, found, radii)
    return found


def _records(simulation, request: Request, n, behind: bool, method, throw):
    """Records of each planet's conjunctions."""
    limits = request.limits or estimated_limits(simulation, request)
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


@fresh_jit
def _seen(simulation, view: View, request: Request, records, radii):
    """Of all epochs one planet after another what is seen, and whether all are there.

    Of what is recorded, where nothing more is asked.
    """
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
    there = jnp.all(~jnp.isnan(times))
    if radii is None and view.c is None:
        seen = _recorded(view, planets, times, states)
    else:
        seen = seen_transits(simulation, view, planets, times, states, reach)
    result = RESULTS.where(there, RESULTS.successful, RESULTS.transit_missing)
    return seen, result


def _recorded(view: View, planets: Array, times: Array, states: State) -> Seen:
    every = np.arange(planets.size)
    d, w = (
        a[every, planets] - a[:, view.star]
        for a in (states.positions, states.velocities)
    )
    n = view.observer.astype(d.dtype)
    d, w = (a - jnp.sum(a * n, axis=1, keepdims=True) * n for a in (d, w))
    return Seen(times, length(d), length(w), None)


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


def _checked_radii(
    request: Request, star_radius: Any, planet_radius: Any
) -> tuple[Array, Array] | None:
    """The radius of the star, and those of the planets in their order."""
    each = planet_radius
    if isinstance(planet_radius, Mapping):
        missing = [key for key in request.keys if key not in planet_radius]
        if missing:
            raise ValueError(
                f"planet_radius must have every planet, and lacks {missing}; or give "
                "one number for all"
            )
        each = [planet_radius[key] for key in request.keys]
    not_negative("planet_radius", each)
    if star_radius is None:
        return None
    positive("star_radius", star_radius, "the star's, in units of length")
    each = jnp.asarray(as_floating("planet_radius", each))
    return as_floating("star_radius", star_radius), jnp.broadcast_to(
        each, (len(request.planets),)
    )


def _check_all_there(simulation, request: Request, n, counts):
    """Raise for an epoch that was not met, with what was met instead."""
    assert request.epochs is not None
    many = zip(request.planets, request.epochs, counts, strict=True)
    for planet, epochs, count in many:
        if not epochs or epochs[-1] < int(count):
            continue
        name, span = body_label(simulation, planet), f"until = {request.until:.10g}"
        raise RuntimeError(
            f"{name} has {int(count)} transits before {span}, and epoch {epochs[-1]} "
            "is asked for, counted from 0 at t0; give a later until"
            + _closest(simulation, request, n, planet)
        )


def _closest(simulation, request: Request, n, planet: int) -> str:
    """How near a planet comes to the star on the sky, the end of a sentence."""
    if any_traced(simulation, n):
        return ""
    times = np.linspace(float(simulation.t0), request.until, 2001)[1:]
    states = simulate(simulation, times).states
    every = sky_separations(simulation, states, relative_to=request.star, observer=n)
    nearest = float(jnp.min(every[:, planet]))
    return f". On the sky it comes within {nearest:.6g} of it"


def _check_overlap(simulation, request: Request, found: TransitTimes, radii: Any):
    """Raise for a planet that never touches the disc of the star."""
    if radii is None or found.durations is None:
        return
    for i, key in enumerate(request.keys):
        misses = np.isnan(np.asarray(found.durations[key]))
        if not misses.size or not misses.all():
            continue
        nearest = float(np.min(np.asarray(found.separations[key])))
        raise ValueError(
            f"{body_label(simulation, request.planets[i])} never transits: it passes "
            f"{nearest:.6g} from the center of the star, "
            f"{nearest / float(radii[0]):.4g} of its radii. For the times of its "
            "conjunctions leave star_radius=None, or leave it out of planets"
        )


#: Of a planet whose period nobody knows, and room beyond what its period says.
_UNKNOWN, _SPARE = 16.0, 4


def checked_request(simulation: Any, planets: Any, star: Any, until: Any) -> Request:
    """The request in numbers; raises for what cannot be."""
    center = body_number(simulation, star, "star")
    until = _checked_until(simulation, until)
    if planets is None:
        count = len(simulation.initial_state()[0].T)
        others = [i for i in range(count) if i != center]
        names = simulation.body_names
        planets = others if names is None else [names[i] for i in others]
    keys = _keys(planets)
    numbers = tuple(body_number(simulation, key, "planets") for key in keys)
    if center in numbers:
        raise ValueError(
            f"planets must not hold the star, got {body_label(simulation, center)} as "
            "both; star= says which body is passed"
        )
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"planets must differ, got {list(keys)}")
    epochs = None
    if isinstance(planets, Mapping):
        epochs = tuple(_checked_epochs(key, planets[key]) for key in keys)
    elif any_traced(simulation):
        raise ValueError(
            "planets must say which epochs where the system is traced, as in fit, jit "
            "and grad: how many transits there are is known only when it runs. Give "
            'those of the data, {"b": [0, 1, 3], "c": [0, 2]}'
        )
    return Request(center, keys, numbers, epochs, until)


def _keys(planets: Any) -> tuple[Any, ...]:
    if isinstance(planets, str | int | np.integer):
        return (planets,)
    if not isinstance(planets, Mapping | Sequence) or not len(planets):
        raise ValueError(
            'planets must be names or numbers, ("b", "c"), or epochs by those, '
            f'{{"b": [0, 1, 3]}}; None is all, got {planets!r:.60}'
        )
    return tuple(planets)


def _checked_epochs(key: Any, epochs: Any) -> tuple[int, ...]:
    example = "[0, 1, 3] of the data, 0 for the first after t0"
    if any_traced(epochs):
        raise ValueError(
            f"epochs of planet {key!r} are traced, and the shape of the answer follows "
            f"from them; give integers, {example}"
        )
    numbers = np.asarray(epochs)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"epochs of planet {key!r} must be integers, {example}, got {epochs!r:.60}"
        )
    if numbers[0] < 0 or np.any(np.diff(numbers) <= 0):
        raise ValueError(
            f"epochs of planet {key!r} must ascend from 0 or more, {example}, got "
            f"{numbers.tolist()!s:.60}"
        )
    return tuple(numbers.tolist())


def _checked_until(simulation: Any, until: Any) -> float:
    if is_traced(until):
        raise ValueError(
            "until is traced, and how many steps there are follows from it; give a "
            "Python float beyond the last transit"
        )
    check_unitless("until", until)
    try:
        until = float(until)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "until must be one number, a time beyond the last transit, got "
            f"{until!r:.60}"
        ) from error
    if until == np.inf:
        raise ValueError(
            "until must be finite, got inf; give a time beyond the last transit"
        )
    if not is_traced(simulation.t0) and not until > float(simulation.t0):
        raise ValueError(
            f"until must lie after t0 = {float(simulation.t0):.10g}, where the system "
            f"begins, got {until:.10g}"
        )
    _warn_of_coarse_dates(simulation.t0, until)
    return until


#: Of the way from the epoch to `until`, what times of transits may be rounded by.
_COARSE = 1e-5


def _warn_of_coarse_dates(t0: Any, until: float):
    """Warns of dates that come back in single precision, a quarter of a day apart."""
    if is_traced(t0) or jnp.result_type(float) != np.float32:
        return
    way, apart = until - float(t0), float(np.spacing(np.float32(abs(until))))
    if abs(until) > 10 * way and apart > _COARSE * way:
        warnings.warn(
            f"times of transits near {until:.8g} come back in float32, which resolves "
            f"{apart:.2g} there; count them from a date of your choice, subtracted "
            "from t0 and until, or ds.configure(enable_x64=True) before any array",
            # this function, both of this file that call it, transit_times, the caller
            stacklevel=5,
        )


def estimated_limits(simulation: Any, request: Request) -> tuple[int, ...]:
    """Of planets whose values are known, a little more than their periods say."""
    x, v = (np.asarray(a, float).T for a in simulation.initial_state())
    span = request.until - float(simulation.t0)
    return tuple(
        _power_of_two(_count(simulation, x, v, request.star, planet, span))
        for planet in request.planets
    )


def _count(simulation: Any, x, v, star: int, planet: int, span: float) -> float:
    if simulation.gravity is None:
        return _UNKNOWN
    gm = float(simulation.gravity.G) * _masses(simulation, len(x))
    _check_bound(simulation, x, v, gm, planet)
    total = gm[star] + gm[planet]
    d, w = x[planet] - x[star], v[planet] - v[star]
    # Of bodies in one place the run itself says that.
    if not total > 0 or not np.any(d):
        return _UNKNOWN
    inverse_a = 2 / np.linalg.norm(d) - np.sum(w * w) / total
    if not inverse_a > 0:
        return _UNKNOWN
    period = 2 * np.pi / np.sqrt(total * inverse_a**3)
    return 1.1 * span / period + _SPARE


def _check_bound(simulation: Any, x, v, gm, planet: int):
    """Raise for a planet that has energy enough to leave all the others.

    It moves about their center of mass as a body of the reduced mass does.
    """
    others = np.arange(len(x)) != planet
    mass = gm[others].sum()
    if not mass > 0:
        return
    w = v[planet] - (gm[others, None] * v[others]).sum(0) / mass
    distances = np.linalg.norm(x[others] - x[planet], axis=1)
    if not np.all(distances):
        return
    share = mass / (mass + gm[planet])
    if share * np.sum(w * w) / 2 > (gm[others] / distances).sum():
        raise ValueError(
            f"planets must be bound to have transits again and again, and "
            f"{body_label(simulation, planet)} is not: its speed of "
            f"{np.linalg.norm(w):.6g} is above that of escape; leave it out of planets"
        )


def _masses(simulation: Any, count: int) -> np.ndarray:
    masses = np.asarray(simulation.bodies.masses, float)
    return np.concatenate([masses, np.zeros(count - masses.size)])


def _power_of_two(count: float) -> int:
    # Few sizes, so that few programs are compiled.
    return 2 ** int(np.ceil(np.log2(max(count, 4))))
