"""Impossible orbits and constants, concrete and traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody


_X, _V = [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]]
_SYSTEM = nbody.NBody(nbody.Bodies([1.0, 1e-3], _X, _V))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"semi_major_axis": -1.0, "h": 0.2}, "semi_major_axis must be positive"),
        ({"semi_major_axis": [1.0, 0.0]}, "semi_major_axis must be positive, got 0"),
        ({"semi_major_axis": 1.0, "h": 0.8, "k": 0.6}, "below 1, got 1:"),
        ({"semi_major_axis": 1.0, "ix": 2.0, "iy": 1.0}, "of at most 4, got 5"),
    ],
)
def test_nonsingular_elements_of_unbound_orbits_raise_or_are_nan(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        nbody.NonsingularElements(**given).state(1.0)
    for part in jax.jit(lambda g: nbody.NonsingularElements(**g).state(1.0))(
        jax.tree.map(jnp.asarray, given, is_leaf=lambda x: isinstance(x, list))
    ):
        assert np.all(np.isnan(np.atleast_2d(part)[-1]))


@pytest.mark.parametrize(
    ("a", "e", "f"), [(1.0, 1.2, 0.0), (-1.0, 0.2, 0.0), (-1.0, 2.0, 3.0), (1, -0.1, 0)]
)
def test_traced_elements_of_impossible_orbits_are_nan(a, e, f):
    @jax.jit
    def state(a, e, f):
        orbit = nbody.Elements(semi_major_axis=a, eccentricity=e, true_anomaly=f)
        return orbit.state(1.0)

    assert np.all(np.isnan(state(a, e, f)))
    assert np.all(np.isnan(jax.jacfwd(state)(float(a), e, f)[0]))


def test_traced_negative_gm_is_nan():
    for orbit in (
        nbody.Elements(semi_major_axis=1.0),
        nbody.NonsingularElements(semi_major_axis=1.0),
    ):
        assert np.all(np.isnan(jax.jit(lambda gm, orbit=orbit: orbit.state(gm))(-1.0)))
        with pytest.raises(ValueError, match="gm must not be negative, got -1"):
            orbit.state(-1.0)


@pytest.mark.parametrize("gm", [0.0, -1.0])
@pytest.mark.parametrize("find", [nbody.elements, nbody.nonsingular_elements])
def test_elements_with_nonpositive_gm_raise_value_error(find, gm):
    with pytest.raises(ValueError, match=f"gm must be positive, got {gm}"):
        find([1.0, 0, 0], [0, 1.0, 0], gm)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: nbody.PostNewtonian(0.0), "c must be positive, got 0"),
        (lambda: nbody.PostNewtonian(-1.0), "c must be positive, got -1"),
        (lambda: nbody.PostNewtonian(np.inf), "c must be finite, got inf"),
        (lambda: nbody.PostNewtonian(1.0, primary=True), "primary must be the index"),
        (lambda: nbody.Gravity(np.nan), "G must be finite, got nan"),
        (lambda: nbody.Gravity(1.0, -0.1), "softening must not be negative, got -0.1"),
        (lambda: nbody.Gravity(1.0, np.nan), "softening must be finite, got nan"),
    ],
)
def test_invalid_constants_raise_value_error(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    "measure", [nbody.energy, nbody.angular_momentum, nbody.momentum]
)
def test_state_with_another_number_of_bodies_raises_value_error(measure):
    test_particles = nbody.TestParticles([[2.0, 0, 0]], [[0, 0.7, 0]])
    with_tracer = nbody.NBody(_SYSTEM.bodies, test_particles=test_particles)

    def states(n):
        return nbody.State(jnp.eye(4, 3)[:n], jnp.ones((n, 3)))

    for n in (1, 3):
        with pytest.raises(ValueError, match=r"of the 2 bodies of the system, got"):
            measure(_SYSTEM, states(n))
    with pytest.raises(ValueError, match="of the 2 bodies and 1 test particles"):
        measure(with_tracer, states(4))
    alone, both = (measure(with_tracer, states(n)) for n in (2, 3))
    np.testing.assert_array_equal(alone, both)


def test_large_mean_anomaly_is_not_taken_for_degrees(recwarn):
    orbit = nbody.Elements.from_mean_anomaly(
        1e6, semi_major_axis=[1.0, 2.0], eccentricity=0.1
    )
    assert not recwarn.list
    np.testing.assert_allclose(orbit.mean_anomaly, [1e6, 1e6], rtol=1e-15)
