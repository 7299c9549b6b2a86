"""The transits that are asked for, in numbers."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._validation import check_unitless, is_traced
from ._line_of_sight import any_traced, body_label, body_number


#: Of a planet whose period nobody knows, and room beyond what its period says.
_UNKNOWN, _SPARE = 16.0, 4


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
