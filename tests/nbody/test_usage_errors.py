"""What is wrong in a call of `nbody` is said in one sentence."""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sentences import Quantity, of, options, pairs, raises, table, warns

from diffsim import nbody, pde, problems
from diffsim.integrators import Leapfrog
from diffsim.nbody import Bodies, Elements, Gravity, NBody
from diffsim.simulations import (
    AbstractSimulation,
    Method,
    Reversible,
    Separable,
    simulate,
)


_X, _V = np.eye(3)[:2], np.eye(3)[1:]
_BODIES = Bodies([1.0, 1e-3], _X, _V, names=["a", "b"])
_SYSTEM, _NAMELESS = NBody(_BODIES), NBody(Bodies([1.0, 0.1], _X, _V))
_STATE, _TOGETHER = (nbody.State(jnp.asarray(x), jnp.asarray(_V)) for x in (_X, 0 * _X))
_STAR = Bodies([1.0], [[0, 0, 0]], [[0, 0, 0]], names=["a"])
_EARTH = Bodies([1.0, 2.0], _X, _V, names=["Sun", "Earth"])
_ROCKS = nbody.TestParticles(_X, _V, names=["rock", "Earth"])
_THREE = Bodies(np.ones(3), np.eye(3), np.eye(3), names=["star", "b", "c"])
_CROSSING = Bodies(
    [1.0, 1e-3, 1e-3], np.eye(3)[[0, 1, 1]], np.eye(3), names=["a", "b", "c"]
)
_ORBIT, _ORBITS = (Elements(semi_major_axis=a) for a in (1.0, [1.0]))
_METHOD, _MAP = Method(Leapfrog(), 0.1), Method(nbody.WisdomHolman(), step=0.1)


class Magnitude:
    """As Pint has it."""

    units = "kilometer"

    def m_as(self, unit):
        return np.ones(3)

    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


class Oscillator(AbstractSimulation):
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(3), jnp.zeros(3)

    def terms(self):
        return Separable(lambda t, v, args: v, lambda t, x, args: -x)

    def default_method(self):
        return _METHOD


def quantity(values):
    return np.asarray(values, float).view(Quantity)


def drag(t, state):
    return -0.5 * state.velocities


def spring(t, state):
    return -4.0 * state.positions


def uniform(t, state):
    return jnp.zeros(3)


def _none(t, state):
    return None


def run(system, method=_METHOD, times=1.0, **options):
    return simulate(system, times, method, **options)


def forced(*forces, method=_METHOD):
    return run(NBody(_BODIES, (Gravity(), *forces)), method)


def orbit(given):
    if given.keys() & {"eccentricity", "inclination", "semi_major_axis"}:
        given = {k: jnp.asarray(v, jnp.float32) for k, v in given.items()}
    return nbody.Orbit(**given).state(jnp.float32(1.0))


@functools.cache
def trajectory():
    return run(_SYSTEM, times=[0.1])


def seen(call):
    system = NBody(_THREE)
    return call(system, system.observe(0.0, system.initial_state()))


_OBSERVABLES = nbody.energy, nbody.momentum, nbody.angular_momentum
_FLOAT32 = {"time_of_transit": np.float32(2459000.5), "inclination": 1.5}
_UNITS = [
    (call, rf"{name} must be plain numbers .* in km; take {name}\.to_value\(unit\)")
    for name, call in (
        ("masses", lambda: Bodies(quantity([1, 2]), _X, _V)),
        ("positions", lambda: Bodies([1.0, 2.0], quantity(_X), _V)),
        ("velocities", lambda: Bodies([1.0, 2.0], _X, quantity(_V))),
        ("positions", lambda: nbody.TestParticles([quantity(x) for x in _X], _V)),
        ("G", lambda: Gravity(quantity(1.0))),
        ("softening", lambda: Gravity(1.0, quantity(1.0))),
        ("c", lambda: nbody.PostNewtonian(quantity(1.0))),
        ("t0", lambda: NBody(_BODIES, t0=quantity(1.0))),
        ("times", lambda: simulate(_SYSTEM, quantity([1.0]), _METHOD)),
        ("times", lambda: simulate(_SYSTEM, [quantity(1.0)], _METHOD)),
        ("semi_major_axis", lambda: Elements(semi_major_axis=quantity(1.0))),
        ("mean_anomaly", lambda: Elements.from_mean_anomaly(quantity(1.0))),
        ("x", lambda: Elements.from_state(quantity(_X), _V, 1.0)),
        ("gm", lambda: nbody.kepler_step(_X, _V, 1.0, gm=quantity(1.0))),
        ("mean_anomaly", lambda: nbody.eccentric_anomaly(quantity(1.0), 0.1)),
        ("X", lambda: Bodies.from_table(_TABLE | {"X": quantity([0.0])})),
    )
]
_TABLE = {key: [1.0] for key in ("name", "GM", "X", "Y", "Z", "VX", "VY", "VZ")}
_BODY_NAMES = [
    (["Sun"], "names must be one a body, got 1 for 2"),
    (["Sun", "Sun"], "names must differ, got Sun more than once"),
    (["1", "a"], "names must be strings that a path can read, got '1': no index"),
    (["a", "-1"], "got '-1': no index or slice, .* write 'body 4' for '4'"),
    (["a", "1:"], "got '1:': no index or slice"),
    (["a", ":"], "got ':': no index or slice"),
    (["a", " 4 "], "got ' 4 ': no index or slice"),
    (["a", "0, 1"], "got '0, 1': no index or slice"),
    (["a", "*"], r"got '\*': no index or slice"),
    ([1, 2], "names must be strings that a path can read, got 1: no index"),
    ([b"a", "b"], "names must be strings that a path can read, got b'a'"),
    (["a", "b]"], r"got 'b\]': .* brackets that close, at most one pair"),
    (["a", ""], "got '': .* some letter"),
]
_INCLINATIONS = [
    (30.0, r"radians, got 30; numpy\.deg2rad\(\.\.\.\) converts degrees"),
    ([0.1, 7.0], "got 7; numpy"),
    (-0.1, "got -0.1; .* turn longitude_of_ascending_node by pi"),
    (-30.0, "got -30; numpy"),
]


@table(
    _UNITS,
    of(lambda names: Bodies([1.0, 2.0], _X, _V, names=names), *_BODY_NAMES),
    of(lambda names: nbody.TestParticles(_X, _V, names=names), *_BODY_NAMES),
    of(lambda x: Elements(semi_major_axis=1.0, inclination=x), *_INCLINATIONS),
    of(
        lambda x: Elements.from_mean_anomaly(1.0, semi_major_axis=1.0, inclination=x),
        *_INCLINATIONS,
    ),
    of(
        lambda given: Bodies(*given),
        (([1.0, 2.0], _X[:, :2], _V), "for planar systems set z to zero"),
        (([1.0, 2.0, 3.0], np.ones((3, 2)), np.ones((3, 2))), "for planar systems"),
        (([1.0, 2.0], _X.T, _V), r"positions .* rows are bodies, so .* \.T"),
        (([1.0, 2.0], _X, _V.T), r"velocities .* rows are bodies, so .* \.T"),
        ((np.ones(5), np.ones((3, 5)), np.ones((3, 5))), r"got \(3, 5\); rows are"),
        ((_X, _V, [1.0, 2.0]), r"order is Bodies\(masses, positions, velocities\)"),
        (([[1.0, 2.0]], _X, _V), r"masses must have shape .* got \(1, 2\); one mass a"),
        (("heavy", _X, _V), "masses must be real numbers, .* got 'heavy'"),
        (([1.0, [2.0]], _X, _V), "masses must be real numbers, an array or nested"),
        (([1j, 2.0], _X, _V), "masses must be real numbers, got dtype complex128"),
        (([1.0, -0.1], _X, _V), "masses must not be negative, got -0.1 of body 1"),
        (([1.0, np.nan], _X, _V), "masses must be finite, got nan of body 1"),
    ),
    of(
        lambda forces: NBody(_BODIES, forces),
        ((Gravity(), Gravity()), "forces must hold one Gravity, got 2"),
        ((nbody.PostNewtonian(1.0),), "one Gravity, got 0: PostNewtonian corrects it"),
    ),
    of(
        lambda forces: NBody(_BODIES, forces, gravity=False),
        (None, "gravity=False contradicts forces, which"),
        (Gravity(), "gravity=False contradicts forces, which"),
        ([Gravity(), drag], "gravity=False contradicts forces, which"),
    ),
    of(
        lambda primary: nbody.PostNewtonian(1.0, primary=primary),
        (-1, "primary must be a whole number from 0"),
        ("Sun", "primary must be a whole number from 0"),
        (0.0, "primary must be a whole number from 0"),
        (True, "primary must be a whole number from 0"),
    ),
    *(
        of(
            functools.partial(kind.from_state, [1.0, 0, 0], [0, 1.0, 0]),
            (0.0, "gm must be positive, got 0.0"),
            (-1.0, "gm must be positive, got -1.0"),
        )
        for kind in (Elements, nbody.NonsingularElements)
    ),
    of(
        lambda observable: observable(_SYSTEM, trajectory()),
        *((f, r"such as trajectory\.states, got .*Trajectory") for f in _OBSERVABLES),
    ),
    of(
        lambda observable: observable(_STATE, _SYSTEM),
        *((f, r"nbody\.NBody\(bodies\), before the states") for f in _OBSERVABLES),
    ),
    of(
        orbit,
        ({"period": 0.0}, "period must be positive, got 0"),
        ({"period": 1.0, "eccentricity": 1.2}, "period is of bound orbits"),
        ({"period": 1.0, "eccentricity": 1.0}, "eccentricity must not be 1"),
        ({"period": 1.0, "eccentricity": -0.1}, "eccentricity must be from 0"),
        ({"period": 1.0, "inclination": 90.0}, r"got 90; numpy\.deg2rad"),
        ({"period": 10.0, **_FLOAT32}, "known to less than 1e-4 of the period, 10"),
        ({"semi_major_axis": 4.0, **_FLOAT32}, "count times from a date"),
        ({"period": 1.0, "omega_of": "both"}, "omega_of must be"),
        ({"period": np.inf}, "period must be finite, got inf"),
        ({"period": 1.0, "epoch": np.nan}, "epoch must be finite, got nan"),
        ({"semi_major_axis": 0.0}, "semi_major_axis must not be 0"),
    ),
    of(
        options(nbody.megno, NBody(_STAR), times=1.0),
        ({"times": 0.0}, "times must lie after t0 = 0"),
        ({"times": [2.0, 1.0]}, "times must ascend, got 2.0 before 1.0"),
        ({"times": []}, "times must have shape"),
        ({"tangent": 3.0}, r"such as \(positions, velocities\), got 3\.0"),
        ({"tangent": (np.zeros((1, 3)),) * 2}, "tangent must not be zero"),
    ),
    of(
        seen,
        (lambda s, y: nbody.radial_velocity(s, y, "x"), "got 'x'; there are 'star'"),
        (lambda s, y: nbody.radial_velocity(s, y, 3), "from 0 to 2, got 3"),
        (lambda s, y: nbody.sky_positions(s, y.positions), "state must be"),
    ),
    of(
        lambda observer: seen(
            lambda s, y: nbody.radial_velocity(s, y, observer=observer)
        ),
        ((0, 0, 0), "observer must not be zero"),
        ((0, 1), r"observer must have shape \(3,\), got \(2,\); a direction as"),
    ),
    of(
        options(nbody.WisdomHolman),
        ({"corrector": 4}, "corrector must be one of 0, 3, 5, 7, 11, 17, got 4"),
        ({"coordinates": "heliocentric"}, "coordinates must be one of 'jacobi', "),
        ({"kernel": "fast"}, "kernel must be one of 'default', "),
        (
            {"kernel": "lazy", "coordinates": "whds"},
            "kernel='lazy' needs coordinates='jacobi'",
        ),
    ),
    of(
        lambda system: run(system, _MAP),
        (NBody(_BODIES, [Gravity(), drag]), "accelerations do not depend on velocity"),
        (NBody(_BODIES, Gravity(softening=0.1)), r"needs .*Gravity\(softening=0\)"),
        (NBody(_BODIES, spring, gravity=False), r"needs .*Gravity\(softening=0\)"),
        (NBody(_STAR), "two bodies or more"),
        (Oscillator(), "bodies of the simulation must be an object such as nbody"),
    ),
    of(
        lambda solver: run(NBody(_CROSSING), Method(solver, 0.1)),
        (Leapfrog(), "must differ, got b and c in one place at t0"),
        (nbody.WisdomHolman(), "must differ, got b and c in one place at t0"),
        (nbody.SABA(), "must differ, got b and c in one place at t0"),
    ),
    of(
        options(simulate, _SYSTEM, 1.0),
        ({"max_steps": 10.0}, "max_steps must be a whole number from 1, got 10.0"),
        ({"max_steps": True}, "max_steps must be a whole number from 1, got True"),
        ({"rtol": "a"}, "rtol must be real numbers"),
        ({"throw": "no"}, "throw must be .*True, False or None, got 'no'"),
    ),
    [
        (lambda: nbody.PostNewtonian(0.0), "c must be positive, got 0"),
        (lambda: nbody.PostNewtonian(-1.0), "c must be positive, got -1"),
        (lambda: nbody.PostNewtonian(np.inf), "c must be finite, got inf"),
        (lambda: Gravity(np.nan), "G must be finite, got nan"),
        (lambda: Gravity(1.0, -0.1), "softening must not be negative, got -0.1"),
        (lambda: Gravity(1.0, np.nan), "softening must be finite, got nan"),
        (lambda: Elements(semi_major_axis=0.0), "semi_major_axis must not be 0"),
        (lambda: nbody.distances(trajectory()), r"such as trajectory\.states"),
        (lambda: forced(drag), "Leapfrog needs Separable dynamics"),
        (lambda: _STAR.join(_NAMELESS.bodies), "names must be on both sides"),
        (lambda: _STAR.join(_STAR), "names must differ, got a"),
        (
            lambda: _STAR.relative_to("b"),
            "got 'b'; there are 'a'",
        ),
        (lambda: nbody.elements(_NAMELESS, body="x"), "they have no names"),
        (lambda: nbody.elements(_SYSTEM, body=2), "from 0 to 1, got 2"),
        (
            lambda: nbody.elements(_SYSTEM, body=0),
            "x must not be zero, the place of one body",
        ),
        (
            lambda: nbody.elements(_NAMELESS, _TOGETHER),
            r"got 0 at \[0\]",
        ),
        (lambda: nbody.elements(_STATE, _SYSTEM), r"nbody\.Elements\.from_state, got"),
        (lambda: _ORBIT.period(), "needs gm"),
        (lambda: nbody.IAS15(epsilon=0.0), "epsilon must be positive"),
        (lambda: nbody.HybridWisdomHolman(hill_radii=0.0), "hill_radii must be posi"),
        (lambda: nbody.HybridWisdomHolman(coordinates="x"), "coordinates must be"),
        (lambda: nbody.SABA((6, 4)), r"scheme must be .*\(10, 6, 4\)"),
        (lambda: nbody.SABA((10, 4), coordinates="whds"), "scheme must be"),
    ],
    pairs(
        lambda: nbody.PostNewtonian([1.0, 2.0]),
        r"c must have shape \(\), got \(2,\)",
        lambda: Bodies([1.0, 2.0], _X[:, :2], _V),
        r"positions must have shape \(2, 3\), got \(2, 2\)",
        lambda: Elements(eccentricity=0.1),
        "semi_major_axis must be real numbers, .* got None",
        lambda: Bodies([1.0], _X, _V),
        r"positions must have shape \(1, 3\), got \(2, 3\); one row x, y, z",
        lambda: Bodies([1.0, 2.0], _X, _V[:1]),
        r"velocities must have shape \(2, 3\), got \(1, 3\); one row x, y, z",
        lambda: Bodies([Magnitude(), Magnitude()], _X, _V),
        r"masses\.m_as\(unit\)",
        lambda: NBody(Bodies([], np.zeros((0, 3)), np.zeros((0, 3)))),
        "the number of bodies must be a whole number from 1, got 0",
        lambda: NBody(_EARTH, test_particles=_ROCKS),
        "names must differ, got Earth more than once",
        lambda: nbody.TestParticles([[0.0, np.inf, 0.0]], [[0.0, 0.0, 0.0]]),
        "positions must be finite, got inf of body 0",
        lambda: Bodies.from_elements([1.0, _STAR], _ORBITS),
        "names must be one for each of the 1 entries",
        lambda: Bodies.from_elements([-1.0, 0.1], _ORBITS),
        "masses must not be negative, got -1 of body 0",
        lambda: Bodies.from_elements([0.0, 0.0], _ORBITS),
        "positions must be finite, got nan of body 0",
        lambda: Bodies.from_elements([1.0, 0.0], _ORBITS, G=[1.0, 2.0]),
        r"G must be one number, got shape \(2,\)",
        lambda: Bodies.from_elements([1, 2, 3], _ORBITS),
        r"elements must have shape \(2,\), got \(1,\)",
        lambda: Bodies.from_elements([1, 2], [_ORBIT]),
        r"elements must be an object such as nbody\.Elements\(semi_major_axis",
        lambda: Bodies.from_elements(
            [1, 1], _ORBITS, jacobi=True, coordinates="barycentric"
        ),
        "jacobi=True contradicts",
        lambda: NBody(_BODIES, (Gravity(), nbody.PostNewtonian(1.0, primary=2))),
        "PostNewtonian has primary=2, and there are 2 bodies, counted from 0",
        lambda: Gravity("au, Msun, day"),
        "G must be real numbers, .* got 'au, Msun, day'",
        lambda: Elements(semi_major_axis=[1.0, 2.0], eccentricity=[0.1, 0.2, 0.3]),
        r"semi_major_axis \(2,\), eccentricity \(3,\)",
        lambda: Elements(semi_major_axis=[1.0, 2.0]).state([1.0, 1.0, 1.0]),
        r"shapes must broadcast, got gm \(3,\)",
        lambda: Elements(semi_major_axis=1.0, eccentricity=-0.1),
        "eccentricity must be from 0, got -0",
        lambda: Elements(semi_major_axis=-1.0, eccentricity=2.0, true_anomaly=2.1),
        "between the asymptotes, got 2.1 at eccentricity 2.0",
        lambda: Elements(semi_major_axis=1.0, eccentricity=1.0).state(1.0),
        "eccentricity must not be 1, a fall through the center",
        lambda: Elements(semi_major_axis=2.0, eccentricity=1.5),
        "got 2.0, e = 1.5",
        lambda: Elements(semi_major_axis=-2.0, eccentricity=0.5),
        "got -2.0, e = 0.5",
        lambda: Elements(semi_major_axis=-1.0, eccentricity=2.0).period(1.0),
        "period is of bound orbits, got semi_major_axis -1",
        lambda: Elements.from_mean_anomaly(1.0, semi_major_axis=1.0, eccentricity=1.0),
        "eccentricity must not be 1",
        lambda: nbody.elements(_SYSTEM, coordinates="astrocentric"),
        "got 'astrocentric'; astrocentric is heliocentric",
        lambda: nbody.elements(_SYSTEM, coordinates="jacobi", primary=0),
        "contradicts coordinates",
        lambda: Elements.from_state([0, 0, 0], [0, 1, 0], 1.0),
        "x must not be zero, the place of one body",
        lambda: orbit({"period": 1.0, "h": 0.8, "k": 0.8, "mean_longitude": 0.0}),
        "h and k must have squares that add to less than 1",
        lambda: orbit(
            {"semi_major_axis": 1.0, "impact_parameter": 1.0, "star_radius": 2.0}
        ),
        "0.00465 for the Sun in au",
        lambda: nbody.planet_mass(1.0, 0.1, period=0.0),
        "period must be positive, got 0",
        lambda: nbody.semi_amplitude(-1.0, 0.1, period=1.0),
        "star_mass must be positive, got -1",
        lambda: nbody.planet_mass(1.0, 0.1, period=1.0, eccentricity=[0.1, 1.5]),
        r"1 - eccentricity must be positive, got -0\.5; a period is of bound",
        lambda: nbody.semi_amplitude(1.0, np.nan, period=1.0),
        "planet_mass must be finite, got nan",
        lambda: nbody.planet_mass(1.0, 0.1, period=1.0, inclination=0.0),
        r"inclination must not be 0, .* face-on",
        lambda: seen(lambda s, y: nbody.sky_positions(s, y, observer=(1, 0, 0))),
        "north must not lie along the line of sight",
        lambda: seen(lambda s, y: nbody.sky_separations(s, y, distance=0.0)),
        "distance must be positive",
        lambda: eqx.filter_jit(nbody.recommend_method)(_SYSTEM),
        "system is traced, and its numbers are not known",
        lambda: nbody.recommend_method(_BODIES),
        "system must be an object such as nbody",
        lambda: forced(_none),
        "the acceleration by _none must be real numbers.*got None",
        lambda: forced(lambda state: 0 * state.positions),
        r"must take \(t, state\), got a function",
        lambda: forced(lambda s, t: 0 * s.positions),
        r"reads .positions of the time.*force\(t, sta",
        lambda: forced(uniform, method=Method(diffrax.Heun(), 0.1)),
        r"acceleration by uniform must have shape \(2, 3\), got \(3,\)",
        lambda: run(NBody(_BODIES, [spring, functools.partial(drag)], gravity=False)),
        "Leapfrog needs Separable dynamics",
        lambda: forced(nbody.PostNewtonian(7.0)),
        "accelerations do not depend on velocity",
        lambda: run(NBody(Bodies([0.0, 1e-3], _X, _V)), _MAP),
        "got a mass of 0 and one of 0.001; put the most massive",
        lambda: run(pde.Evolution(pde.Diffusion(1.0), jnp.zeros(8), pde.Grid(8)), _MAP),
        "WisdomHolman steps the bodies of an nbody",
        lambda: run(problems.kaps(), Method(nbody.IAS15())),
        r"IAS15 integrates accelerations.*\(x, v\)",
        lambda: Method(nbody.IAS15(), controller=diffrax.PIDController(1e-8, 1e-8)),
        "IAS15 chooses its steps by the timescale",
        lambda: Method(nbody.HybridWisdomHolman(), step=0.1, adjoint=Reversible()),
        "Reversible needs a time-symmetric solver",
        lambda: nbody.SABA(2, corrector=17),
        "corrector must be one of True, False, got 17",
        lambda: nbody.SABA(corrector=True),
        "corrector=True is there for the schemes",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)


_SHORT_NAMES = [
    ({"a": 1.0}, "a is semi_major_axis"),
    ({"a": 1.0, "e": 0.1, "inc": 0.2}, "e is eccentricity, inc is inclination"),
    ({"P": 1.0}, "P is period; .*nbody.Orbit"),
    ({"M": 1.0}, "M is mean_anomaly; .*nbody.Orbit"),
    ({"colour": 1.0}, "colour is no element"),
]
_MISSING = [
    ({"a": 1.0}, "a is semi_major_axis"),
    ({"P": 1.0, "e": 0.1}, "P is period, e is eccentricity"),
]


@table(
    of(options(Elements, semi_major_axis=1.0), *_SHORT_NAMES),
    of(options(nbody.NonsingularElements, semi_major_axis=1.0), *_SHORT_NAMES),
    of(options(Elements), *_MISSING),
    of(options(nbody.NonsingularElements), *_MISSING),
    of(
        orbit,
        ({"P": 1.0}, "P is period"),
        ({"secosw": 0.1}, 'sqrt_e_cos_omega, with omega_of="star"'),
        ({"k1": 10.0}, r"k1 is a mass: nbody\.planet_mass"),
        ({}, "needs period or semi_major_axis"),
        ({"period": 1.0, "semi_major_axis": 1.0}, "one of period and semi"),
        ({"period": 1.0, "h": 0.1, "eccentricity": 0.1}, "eccentricity and h"),
        (
            {"period": 1.0, "true_anomaly": 1.0, "mean_anomaly": 1.0},
            "one of true_anomaly and mean_anomaly",
        ),
        ({"period": 1.0, "h": 0.1}, "needs true_anomaly or .* beside h: "),
        ({"period": 1.0, "time_of_transit": 0.1}, "pi / 2 is edge-on"),
        ({"period": 1.0, "impact_parameter": 0.1}, "star_radius beside impact"),
        ({"period": 1.0, "mass": 1e-3}, r"of Bodies\.from_elements"),
    ),
    pairs(
        lambda: Elements.from_mean_anomaly(1.0, semi_major_axis=1.0, true_anomaly=1.0),
        "true_anomaly is in mean_anomaly",
    ),
)
def test_mistake_raises_type_error(call, words):
    raises(TypeError, call, words)


@table(
    of(
        lambda missing: Bodies.from_table(
            {key: column for key, column in _TABLE.items() if key != missing}
        ),
        ("GM", "gm"),
        ("VY", "vy"),
    ),
    of(
        nbody.G.__getitem__,
        ("AU, Msun, days", "did you mean 'au, Msun, day'.*'pc, Msun, km/s'"),
        ("si", "did you mean 'SI'"),
        ("furlong", r"G is not known in 'furlong': There are 'natural'"),
    ),
    of(
        lambda name: trajectory()[name],
        ("c", "trajectory has a, b, got"),
        (0, "trajectory has a, b, got"),
        ("states", "trajectory has a, b, got"),
    ),
    pairs(
        lambda: run(_NAMELESS)["a"],
        "trajectory has no names, got 'a'",
        lambda: run(_SYSTEM, observe=lambda t, y: y[0][0])["a"],
        "trajectory has state, got 'a'",
    ),
)
def test_mistake_raises_key_error(call, words):
    raises(KeyError, call, words)


_PAIR = Bodies.from_elements([1.0, 1e-3], _ORBITS)
_FAR = Elements(semi_major_axis=[2.0], eccentricity=[0.9])
_PLANET, _COMET = (
    NBody(_PAIR, test_particles=light)
    for light in (None, nbody.TestParticles.from_elements(_PAIR, _FAR))
)
_STARS = Bodies([1.0, 0.5], _PAIR.positions, _PAIR.velocities)
_SOLVERS = Leapfrog(), nbody.IAS15(), diffrax.Tsit5()
_DATES = np.array([2459000.5, 2459001.0], np.float32)
_DEGREES = r"all beyond 2 pi .* take numpy\.deg2rad"
_DATED = NBody(_BODIES, t0=2459000.0), Method(Leapfrog(), 0.125)


def stepped(system, step, solver=_SOLVERS[0]):
    return run(system, Method(solver, step=step), times=0.0)


@table(
    of(
        lambda solver: stepped(_PLANET, 3.2, solver),
        *((x, r"half of 6.28, .* body 1 .* 0.31, 1/20") for x in _SOLVERS),
    ),
    of(
        lambda solver: stepped(_COMET, 0.4, solver),
        *((x, "body 2 turns about the center where") for x in _SOLVERS),
    ),
    of(
        options(Elements, semi_major_axis=1.0),
        ({"true_anomaly": [174.8, 50.1]}, _DEGREES),
        (
            {"longitude_of_ascending_node": 48.3, "argument_of_pericenter": 29.1},
            _DEGREES,
        ),
    ),
    pairs(
        lambda: Elements.from_mean_anomaly(
            174.8, semi_major_axis=1.0, argument_of_pericenter=29.1
        ),
        _DEGREES,
        lambda: nbody.Orbit(
            period=1.0, argument_of_pericenter=90.0, mean_longitude=200.0
        ),
        r"all beyond 2 pi .* numpy\.deg2rad",
        lambda: run(*_DATED, times=_DATES),
        r"times near 2459001 are float32, .* 0\.25",
    ),
)
def test_doubtful_call_warns(call, words):
    warns(call, words)


_QUIET = {
    "Leapfrog": lambda: stepped(_PLANET, 0.4, Leapfrog()),
    "IAS15": lambda: stepped(_PLANET, 0.4, nbody.IAS15()),
    "Tsit5": lambda: stepped(_PLANET, 0.4, diffrax.Tsit5()),
    "softened bodies": lambda: stepped(NBody(_PAIR, Gravity(softening=0.1)), 4.0),
    "springs": lambda: stepped(NBody(_PAIR, spring, gravity=False), 4.0),
    "two stars": lambda: stepped(NBody(_STARS), 4.0),
    "traced bodies": lambda: eqx.filter_jit(stepped)(_PLANET, 4.0),
    "double precision": lambda: run(*_DATED, times=_DATES.astype(float)),
    "small times": lambda: run(_SYSTEM, _DATED[1], times=np.float32([0.5, 1.0])),
    "one angle within a turn": lambda: Elements(
        semi_major_axis=1.0, true_anomaly=[100.0, 0.3], argument_of_pericenter=9.0
    ),
    "mean anomaly of turns": lambda: Elements.from_mean_anomaly(
        50.0, semi_major_axis=1.0, argument_of_pericenter=1.0
    ),
    "traced angle": lambda: jax.jit(
        lambda f: Elements(semi_major_axis=1.0, true_anomaly=f)
    )(100.0),
}


@pytest.mark.parametrize("name", _QUIET)
def test_what_is_meant_does_not_warn(name):
    _QUIET[name]()
