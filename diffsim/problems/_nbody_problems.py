"""The shared table of problems with exact answers: tests and benchmarks import it."""

import dataclasses
from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import nbody
from .._types import Numbers
from ..simulations import AbstractSimulation, Method, simulate
from ._ephemerides import load_de440
from ._nbody_systems import (
    GM_SUN,
    figure_eight,
    kepler,
    kepler_orbit,
    mercury,
    outer_solar_system,
    pythagorean,
    solar_system,
    variations,
)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ExactValue:
    """A number that is known, and what it is a number of.

    ```python
    def distance(simulation, state):
        return jnp.linalg.norm(state.positions[1] - state.positions[0])

    apocenter = problems.ExactValue("distance at apocenter", distance, 1.5, 1e-7)
    system = problems.kepler(eccentricity=0.5)
    found = apocenter.of(system, ds.simulate(system, np.pi).states)
    apocenter.error(found) < apocenter.tolerance
    ```

    **Fields**

    - `quantity`: in words.
    - `of`: `of(simulation, state)`, what is compared.
    - `value`: what it is.
    - `tolerance`: what a good run keeps, see `error`.
    - `at`: index of its time among the times of the problem.
    - `by`: parameters it is differentiated by, one after another, at most two.
    - `reduced`: applied behind the derivatives.
    - `scale`: errors are divided by it; None is the largest entry of `value`, or 1.
    """

    quantity: str
    of: Callable[[Any, Any], Array]
    value: Numbers
    tolerance: float
    at: int = 0
    by: tuple[str, ...] = ()
    reduced: Callable[[Array], Array] = jnp.asarray
    scale: Numbers | None = None

    def error(self, found: Numbers) -> float:
        """Largest distance of `found` from `value`, in units of `scale`."""
        scale = float(np.max(np.abs(self.value))) or 1.0
        apart = np.abs(np.asarray(found) - self.value)
        return float(np.max(apart / (scale if self.scale is None else self.scale)))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """A simulation, what makes it hard, and the answers.

    ```python
    named = {problem.name: problem for problem in problems.NBODY_PROBLEMS}
    kepler = named["Kepler"]  # a problems.Problem
    found = kepler.found(ds.Method(integrators.KahanLi8(), step=0.03))
    for exact, value in zip(kepler.exact, found, strict=True):
        print(exact.quantity, exact.error(value), exact.tolerance)
    ```

    **Fields**

    - `name`, `difficulty`: a line each.
    - `simulation`: makes it, from `parameters` as keyword arguments.
    - `times`: output times.
    - `exact`: the answers.
    - `source`: where they come from.
    """

    name: str
    difficulty: str
    simulation: Callable[..., AbstractSimulation]
    times: tuple[float, ...]
    exact: tuple[ExactValue, ...]
    source: str
    parameters: dict[str, float] = dataclasses.field(default_factory=dict)

    def found(self, method: Method | None = None) -> tuple[Array, ...]:
        """Values of each of `exact` by a run with `method`; compiled once."""
        order = max(len(exact.by) for exact in self.exact)
        run = jax.jit(_differentiated(lambda p: self._quantities(p, method), order))
        parameters = {name: jnp.asarray(x) for name, x in self.parameters.items()}
        answers = []
        for number, exact in enumerate(self.exact):
            # Directions that are not asked for do not matter: they are not read.
            names = (*exact.by, *(*self.parameters,) * order)[:order]
            along = [{n: jnp.asarray(float(n == m)) for n in parameters} for m in names]
            derivatives = run(parameters, *along)[len(exact.by)]
            answers.append(exact.reduced(derivatives[number]))
        return tuple(answers)

    def _quantities(self, parameters, method) -> tuple[Array, ...]:
        simulation = self.simulation(**parameters)
        states = simulate(simulation, self.times, method, throw=False).states
        at = [jax.tree.map(lambda a, i=exact.at: a[i], states) for exact in self.exact]
        return tuple(
            jnp.asarray(exact.of(simulation, state))
            for exact, state in zip(self.exact, at, strict=True)
        )


def _differentiated(function, order: int):
    """`function` and its derivatives along directions, from the zeroth to `order`."""
    if order == 0:
        return lambda at: (function(at),)

    def along(at, *directions):
        lower = _differentiated(function, order - 1)
        *inner, outermost = directions
        found, moved = jax.jvp(lambda p: lower(p, *inner), (at,), (outermost,))
        return (*found, moved[-1])

    return along


def _plane(body: int):
    return lambda simulation, state: state.positions[body, :2]


def _phase(simulation, state):
    return jnp.concatenate([state.positions.ravel(), state.velocities.ravel()])


def _since_start(simulation, state):
    x, v = simulation.initial_state()
    return jnp.stack([state.positions - x.T, state.velocities - v.T])


def _relative(simulation, state):
    x, v = (a[1, :2] - a[0, :2] for a in (state.positions, state.velocities))
    return jnp.concatenate([x, v])


def _energy_change(simulation, state):
    x, v = simulation.initial_state()
    start = nbody.energy(simulation, nbody.State(x.T, v.T))
    return nbody.energy(simulation, state) / start - 1


def _star_speed(simulation, state):
    return state.velocities[0, 0]


def _perihelion_advance(simulation, state):
    """Arcseconds a century, from the Laplace vector after `_ORBITS` orbits."""
    x, v = _relative(simulation, state).reshape(2, 2)
    spin = x[0] * v[1] - x[1] * v[0]
    axis = jnp.stack([v[1], -v[0]]) * spin / GM_SUN - x / jnp.linalg.norm(x)
    return jnp.rad2deg(jnp.arctan2(axis[1], axis[0])) * 3600 * 36525 / _MERCURY_TIME


def _distance_from_de440(span: str, *value: float, at: int = 0) -> ExactValue:
    """Mercury to Neptune, and the Moon, at the check epoch number `at`."""

    def distances(simulation, state):
        table = load_de440()
        apart = state.positions - table.check_positions[at]
        return jnp.linalg.norm(apart, axis=-1)[1:10] * table.au_km

    quantity = f"distance from DE440 after {span}, km"
    return ExactValue(quantity, distances, value, 0.02, at, scale=value)


def _largest(x: Array) -> Array:
    return jnp.max(jnp.abs(x))


#: Periods of Mercury, and how long they take, days.
_ORBITS = 100
_MERCURY_TIME = _ORBITS * 87.9690

# Kilometres: Mercury, Venus, Earth, Moon, Mars to Neptune. The integrator was IAS15.
_NEWTON_1 = (57.9, 98.7, 60.7, 70.7, 39.7, 0.633, 0.093, 0.032, 0.068)
_EIH_1 = (0.167, 0.278, 0.429, 22.6, 0.206, 0.093, 0.022, 0.021, 0.065)
_EIH_10 = (3.77, 3.61, 3.98, 195.0, 4.43, 3.24, 2.66, 2.26, 6.57)
_DE440 = "Park, Folkner, Williams & Boggs (2021), 10.3847/1538-3881/abd414"

_QUADRUPLE = "computed in quadruple precision with an independent Taylor integrator"

_DERIVATIVE_BY_X3 = (
    ExactValue(
        "largest derivative of the state by x of the 3",
        _phase,
        10.159423723441,
        # With its variational equations IAS15 has 6e-10, limited by rounding.
        5e-8,
        by=("x3",),
        reduced=_largest,
    ),
    ExactValue(
        "x of the 3 by its start",
        lambda simulation, state: state.positions[0, 0],
        -0.695200922204280572,
        5e-8,
        by=("x3",),
    ),
)

NBODY_PROBLEMS = (
    Problem(
        "figure-8",
        "Three equal masses that meet nowhere: smooth, periodic, stable.",
        figure_eight,
        (0.0, 6.32591398292621, 100.0),
        (
            ExactValue("energy", nbody.energy, -1.28714199563185225, 1e-15),
            # The data have 14 digits: the exact flow closes to 5.02e-14.
            ExactValue("closure after a period", _since_start, 0.0, 1e-13, at=1),
            ExactValue(
                "body 1 at t = 100",
                _plane(0),
                (-0.151635831644492582, 0.135746416985387599),
                # Rounding of 16 periods; by step and solver it is 1e-12 to 7e-11.
                1e-10,
                at=2,
            ),
        ),
        f"Chenciner & Montgomery (2000), 10.2307/2661357; {_QUADRUPLE}",
    ),
    Problem(
        "Pythagorean",
        "Close encounters, 0.0096 before t = 10 and 4.1e-4 at t = 15.83.",
        pythagorean,
        (10.0,),
        (
            ExactValue(
                "positions at t = 10",
                lambda simulation, state: state.positions[:, :2],
                (
                    (0.778480410138085493, 0.141392300290086169),
                    (-2.025092477978198586, 0.097219384146058397),
                    (1.152985736299707573, -0.162610887490898418),
                ),
                # IAS15 sums with compensation and has 6e-13 in float64. Plain sums
                # have 3e-11 to 5e-11 at any tolerance, SciPy's DOP853 as well.
                1e-10,
            ),
            *_DERIVATIVE_BY_X3,
        ),
        f"Szebehely & Peters (1967), 10.1086/110355; {_QUADRUPLE}",
        {"x3": 1.0},
    ),
    Problem(
        "variations",
        "Ten orbits of two planets; first and second derivatives.",
        variations,
        (20 * np.pi,),
        (
            ExactValue("v_x of the star", _star_speed, 4.92417584247827520e-4, 1e-11),
            ExactValue("by a_2", _star_speed, 0.026958628196580335, 1e-11, by=("a2",)),
            ExactValue("by m_2", _star_speed, 0.47850654480297716, 1e-11, by=("m2",)),
            ExactValue(
                "by a_2 twice",
                _star_speed,
                -0.13751365052658519,
                1e-11,
                by=("a2", "a2"),
            ),
        ),
        f"Rein & Tamayo (2016), 10.1093/mnras/stw644; {_QUADRUPLE}",
        {"a2": 1.5, "m2": 1e-3},
    ),
    Problem(
        "outer Solar System",
        "Thirteen orbits of Jupiter; for leapfrogs of step 1, a 75th of its period.",
        outer_solar_system,
        (1000.0,),
        (ExactValue("relative change of energy", _energy_change, 0.0, 1e-9),),
        "Hairer, Lubich & Wanner (2006), 10.1007/3-540-30666-8, I.2.3",
    ),
    Problem(
        "Kepler",
        "Two bodies on ellipses of eccentricity 0.5: closed form.",
        kepler,
        (5.0, 50.0),
        (
            ExactValue("orbit at t = 5", _relative, kepler_orbit(5.0), 1e-12),
            # The error in phase grows as t², from rounding as well.
            ExactValue("orbit at t = 50", _relative, kepler_orbit(50.0), 1e-11, at=1),
        ),
        "Kepler's equation, solved by Newton's method",
    ),
    Problem(
        "Mercury",
        "In 100 orbits the perihelion turns by 0.003 degrees and nothing else does.",
        mercury,
        (_MERCURY_TIME,),
        # To first order in 1/c²; what follows is 1e-7 of it.
        (ExactValue('perihelion, "/century', _perihelion_advance, 42.9807, 1e-4),),
        "6πGM/(c²a(1 − e²)), Einstein (1915)",
    ),
    Problem(
        "DE440, Newton",
        "A year of the Solar System with the Moon; misses relativity.",
        lambda: solar_system(relativity=False),
        (365.25,),
        (_distance_from_de440("1 yr", *_NEWTON_1),),
        _DE440,
    ),
    Problem(
        "DE440, EIH",
        "Ten years of the Solar System with the Moon and relativity; misses asteroids.",
        lambda: solar_system(relativity=True),
        (365.25, 3652.5),
        (
            _distance_from_de440("1 yr", *_EIH_1),
            _distance_from_de440("10 yr", *_EIH_10, at=1),
        ),
        _DE440,
    ),
)
