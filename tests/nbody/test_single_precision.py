"""Forces in single precision, in every system of units, against double precision."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


_AU, _YEAR, _SUN, _C = 149_597_870_700.0, 365.25 * 86_400.0, 1.98841e30, 299_792_458.0
_PARSEC = 648_000 / np.pi * _AU
_GM_SUN = 1.3271244e20

#: Units of length, mass and time in SI.
_UNITS = {
    "natural": (_AU, _SUN, _YEAR / (2 * np.pi)),
    "au, Msun, day": (_AU, _SUN, 86_400.0),
    "au, Msun, yr": (_AU, _SUN, _YEAR),
    "au, Msun, yr/2pi": (_AU, _SUN, _YEAR / (2 * np.pi)),
    "pc, Msun, km/s": (_PARSEC, _SUN, _PARSEC / 1e3),
    "kpc, Msun, Myr": (1e3 * _PARSEC, _SUN, 1e6 * _YEAR),
    "km, Mearth, s": (1e3, 5.9722e24, 1.0),
    "SI": (1.0, 1.0, 1.0),
    "cgs": (1e-2, 1e-3, 1.0),
}
#: Sizes of what is simulated, in m: planets, the outermost of them, a star cluster.
_SIZES = {"5 au": 5 * _AU, "100 au": 100 * _AU, "10 pc": 10 * _PARSEC}


def _G(units):
    length, mass, time = _UNITS[units]
    return _GM_SUN / _SUN * mass * time**2 / length**3


def test_units_of_this_file_are_those_of_the_library():
    assert set(_UNITS) - {"cgs"} == set(nbody.G)
    for units in set(_UNITS) - {"cgs"}:
        # The last is rounded to what the mass of the Sun in kg is known to.
        assert _G(units) == pytest.approx(nbody.G[units], rel=1e-4)


def problem(units, size, bodies, test_particles):
    """A heavy body and light ones about it, at the speed of circular orbits."""
    length, mass, time = _UNITS[units]
    random = np.random.default_rng(0)
    x = random.normal(size=(3, bodies + test_particles)) * _SIZES[size] / length
    x[:, 0] = 0
    masses = random.uniform(0.1, 1, bodies) * 1e-3 * _SUN / mass
    masses[0] = _SUN / mass
    speed = np.sqrt(_G(units) * masses[0] / (_SIZES[size] / length))
    v = random.normal(size=x.shape) * speed
    return {
        "masses": masses,
        "x": x,
        "v": v,
        "G": np.asarray(_G(units)),
        "c": np.asarray(_C * time / length),
        "softening": np.asarray(0.01 * _SIZES[size] / length),
    }


def _gravity(p):
    force = nbody.Gravity(p["G"], p["softening"])
    return force.acceleration(0.0, p["x"], None, p["G"] * p["masses"])


def _post_newtonian(primary):
    def acceleration(p):
        force = nbody.PostNewtonian(p["c"], primary=primary)
        return force.acceleration(0.0, p["x"], p["v"], p["G"] * p["masses"])

    return acceleration


_FORCES = {
    "pairs": (_gravity, 4, 0),
    "blocks": (_gravity, 70, 0),
    "test particles": (_gravity, 4, 3),
    "test particles in blocks": (_gravity, 70, 3),
    "post-Newtonian": (_post_newtonian(None), 4, 3),
    "post-Newtonian, central": (_post_newtonian(0), 4, 3),
}


#: With test particles there are pairs as well.
_PLAIN = ["test particles", "test particles in blocks", "post-Newtonian"]
_OTHERS = [name for name in _FORCES if name not in _PLAIN]


@pytest.fixture(scope="module", params=first_plain(_PLAIN + _OTHERS, len(_PLAIN)))
def derivatives(request):
    """Acceleration, change along relative changes of all inputs, and gradient by them.

    Relative ones: of a mass in g the derivative itself is below what a float32 holds.
    """
    acceleration, bodies, test_particles = _FORCES[request.param]

    @jax.jit
    def of(p, along, weights):
        def moved(q):
            return acceleration({k: p[k] * (1 + q[k]) for k in p})

        at = jax.tree.map(jnp.zeros_like, p)
        value, forward = jax.jvp(moved, (at,), (along,))
        return value, forward, jax.vjp(moved, at)[1](weights / jnp.max(abs(value)))[0]

    return of, bodies, test_particles


@pytest.mark.parametrize("size", list(_SIZES))
@pytest.mark.parametrize("units", list(_UNITS))
def test_forces_and_first_derivatives_are_those_of_double_precision(
    derivatives, units, size
):
    of, bodies, test_particles = derivatives
    p = problem(units, size, bodies, test_particles)
    random = np.random.default_rng(1)
    along = {k: random.normal(size=a.shape) for k, a in p.items()}
    weights = random.normal(size=p["x"].shape)
    at = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (p, along, weights))
    single = of(*at)
    double = of(*jax.tree.map(lambda a: a.astype(jnp.float64), at))
    assert all(a.dtype == jnp.float32 for a in jax.tree.leaves(single))
    assert float(jnp.max(abs(double[0]))) > 0
    for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(double), strict=True):
        # A hundred roundings: sums of up to 73 terms that cancel.
        np.testing.assert_allclose(a, b, rtol=0, atol=6e-6 * np.max(abs(b)))


@pytest.mark.parametrize("units", list(_UNITS))
@pytest.mark.parametrize(
    "default",
    [
        pytest.param(False, id="leapfrog", marks=pytest.mark.slow),
        pytest.param(True, id="default"),
    ],
)
def test_an_orbit_at_80_au_is_that_of_double_precision(units, default):
    length, mass, _ = _UNITS[units]
    x = np.array([[0.0, 0, 0], [80 * _AU / length, 0, 0]])
    speed = np.sqrt(_G(units) * _SUN / mass / x[1, 0])
    v = np.array([[0.0, 0, 0], [0, speed, 0]])
    quarter = 0.5 * np.pi * x[1, 0] / speed
    method = None if default else Method(Leapfrog(), quarter / 200)

    def final(dtype):
        bodies = nbody.Bodies(
            *(jnp.asarray(a, dtype) for a in ([_SUN / mass, 0.0], x, v))
        )
        gravity = nbody.Gravity(jnp.asarray(_G(units), dtype), jnp.zeros((), dtype))
        return simulate(nbody.NBody(bodies, gravity), quarter, method).states.positions

    single, double = final(jnp.float32), final(jnp.float64)
    assert single.dtype == jnp.float32
    # A quarter of the circle: 200 steps, each rounded to 6e-8 of the radius.
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5 * x[1, 0])


@pytest.mark.parametrize("units", ["SI", "cgs"])
def test_distances_are_those_of_double_precision(units):
    x = problem(units, "10 pc", 4, 0)["x"].T
    state = nbody.State(jnp.asarray(x, jnp.float32), jnp.asarray(x, jnp.float32))
    exact = np.linalg.norm(x[:, None] - x, axis=-1)
    np.testing.assert_allclose(jax.jit(nbody.distances)(state), exact, rtol=1e-6)


def test_the_energy_of_planets_in_kilograms_is_that_of_double_precision():
    p = problem("SI", "5 au", 4, 0)

    def energy(dtype):
        x, v = (jnp.asarray(p[k].T, dtype) for k in ("x", "v"))
        gravity = nbody.Gravity(*(jnp.asarray(p[k], dtype) for k in ("G", "softening")))
        # An asteroid's share: with the Sun's own speed the energy itself is too large.
        bodies = nbody.Bodies(jnp.asarray(p["masses"], dtype), x, 1e-6 * v)
        system = nbody.NBody(bodies, gravity)
        start = system.observe(0.0, system.initial_state())
        return jax.jit(nbody.energy)(system, start)

    assert float(energy(jnp.float32)) == pytest.approx(
        float(energy(jnp.float64)), rel=1e-5
    )


def test_single_body_at_the_origin_has_zero_acceleration():
    for mass in (1.0, 1.3e26):
        gm, x = jnp.asarray([mass], jnp.float32), jnp.zeros((3, 1), jnp.float32)
        found = eqx.filter_jit(nbody.Gravity().acceleration)(0.0, x, None, gm)
        np.testing.assert_array_equal(found, np.zeros((3, 1)))


@jax.jit
def _two_bodies(x, v, gm):
    """There and back by both kinds of elements, and a tenth of a radius ahead."""
    time = 0.1 * jnp.max(abs(x)) / jnp.max(abs(v))
    kinds = nbody.Elements, nbody.NonsingularElements
    orbits = [kind.from_state(x, v, gm) for kind in kinds]
    states = [*(orbit.state(gm) for orbit in orbits), nbody.kepler_step(x, v, time, gm)]
    return [orbit.semi_major_axis for orbit in orbits], states


@pytest.mark.gpu
@pytest.mark.parametrize("size", list(_SIZES))
@pytest.mark.parametrize("units", list(_UNITS))
def test_orbits_of_two_bodies_are_those_of_double_precision(units, size):
    p = problem(units, size, 4, 0)
    x, gm = p["x"].T[1:], p["G"] * p["masses"][:1]
    # Half of the speed of escape, across: ellipses from their apocenter.
    speed = np.sqrt(0.5 * gm / np.linalg.norm(x, axis=1))
    across = np.cross([0.0, 0, 1], x)
    v = speed[:, None] * across / np.linalg.norm(across, axis=1, keepdims=True)
    at = [jnp.asarray(a, jnp.float32) for a in (x, v, gm)]
    single = _two_bodies(*at)
    double = _two_bodies(*(a.astype(jnp.float64) for a in at))
    for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(double), strict=True):
        assert a.dtype == jnp.float32
        # A hundred roundings, relative to the largest.
        np.testing.assert_allclose(a, b, rtol=0, atol=6e-6 * np.max(abs(b)))
