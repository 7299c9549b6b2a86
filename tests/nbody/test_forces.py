"""Custom forces: plain functions and modules with parameters."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody
from diffsim.integrators import KahanLi6, Leapfrog
from diffsim.simulations import Method, Reversible, Separable, simulate
from diffsim.verify import taylor_test


_BODIES = nbody.Bodies([1.0, 2.0], [[1.0, 0, 0], [0, 2, 0]], [[0.0, 1, 0], [0, 0, 1]])
_LEAPFROG = Method(Leapfrog(), 0.1)


def spring(t, state):
    return -4.0 * state.positions


def drag(t, state):
    return -0.5 * state.velocities


def drive(t, state):
    return jnp.ones_like(state.positions) * jnp.cos(t)


class Network(eqx.Module):
    """A potential-free neural force, a row a body."""

    layers: eqx.nn.MLP

    def __init__(self, width: int):
        self.layers = eqx.nn.MLP(3, 3, width, 1, jnp.tanh, key=jax.random.key(0))

    def __call__(self, t, state):
        return jax.vmap(self.layers)(state.positions)


def test_plain_function_acts_as_a_force():
    system = nbody.NBody(_BODIES, spring, gravity=False)
    states = simulate(system, 1.3, Method(KahanLi6(), 0.1)).states
    c, s = np.cos(2.6), np.sin(2.6)
    expected = _BODIES.positions * c + _BODIES.velocities * s / 2
    # order 6 at 30 steps a period
    np.testing.assert_allclose(states.positions, expected, atol=1e-8)


def test_force_may_depend_on_time():
    system = nbody.NBody(_BODIES, [drive], t0=0.5, gravity=False)
    states = simulate(system, 1.7, Method(KahanLi6(), 0.1)).states
    expected = _BODIES.velocities + np.sin(1.7) - np.sin(0.5)
    np.testing.assert_allclose(states.velocities, expected, atol=1e-9)


def test_a_force_of_velocity_runs_with_runge_kutta():
    system = nbody.NBody(_BODIES, drag, gravity=False)
    states = simulate(system, 2.0, Method(diffrax.Dopri8(), 0.25)).states
    np.testing.assert_allclose(
        states.velocities, _BODIES.velocities * np.exp(-1.0), atol=1e-10
    )


def test_forces_add_up():
    forces = [nbody.Gravity(1.5), spring, drag]
    x, v = nbody.NBody(_BODIES).initial_state()
    systems = [nbody.NBody(_BODIES, f, gravity=i == 0) for i, f in enumerate(forces)]
    parts = [system.terms().vf(0.0, (x, v), None)[1] for system in systems]
    _, together = nbody.NBody(_BODIES, forces).terms().vf(0.0, (x, v), None)
    np.testing.assert_allclose(together, sum(parts), rtol=1e-15)
    _, default = nbody.NBody(_BODIES).terms().vf(0.0, (x, v), None)
    np.testing.assert_allclose(parts[0], 1.5 * default, rtol=1e-15)


def test_neural_network_force_has_gradients_by_its_weights():
    system = nbody.NBody(_BODIES, [nbody.Gravity(), Network(3)])
    report = taylor_test(lambda s: simulate(s, 0.4, _LEAPFROG), system)
    assert report.passed, f"\n{report}"
    weights = [name for name in report.slopes if "layers" in name]
    assert len(weights) == 4
    for name in weights:
        assert report.slopes[name] == pytest.approx(
            {"forward": 2, "reverse": 2}, abs=0.1
        )


@pytest.mark.slow
def test_reversible_adjoint_of_a_neural_network_force_has_the_stored_gradient():
    def loss(network, adjoint):
        system = nbody.NBody(_BODIES, [nbody.Gravity(), network])
        method = Method(Leapfrog(), 0.1, adjoint=adjoint)
        return jnp.sum(simulate(system, 1.0, method).states.positions ** 2)

    stored, back = (eqx.filter_grad(loss)(Network(3), a) for a in (None, Reversible()))
    for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(stored), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_custom_force_acts_on_test_particles():
    test_particles = nbody.TestParticles([[1.0, 1, 1]], [[0.0, 0, 0]])
    system = nbody.NBody(_BODIES, spring, test_particles=test_particles, gravity=False)
    states = simulate(system, 0.5, Method(KahanLi6(), 0.1)).states
    np.testing.assert_allclose(states.positions[2], np.full(3, np.cos(1.0)), atol=1e-8)


def test_jitted_forces_are_recognized_as_separable_or_not():
    @jax.jit
    def trap(t, state):
        return -0.1 * state.positions

    @jax.jit
    def drag(t, state):
        return -0.1 * state.velocities

    for force, kind in ((trap, Separable), (drag, diffrax.ODETerm)):
        assert isinstance(nbody.NBody(_BODIES, [nbody.Gravity(), force]).terms(), kind)


@pytest.mark.parametrize("force", [spring, [spring, drag]])
def test_forces_without_gravity_warn_and_name_both_remedies(force):
    # `with pytest.warns` finds more than one as well; there is one.
    with pytest.warns(UserWarning, match="do not attract each other") as found:
        nbody.NBody(_BODIES, force)
    (warning,) = found
    sentence = str(warning.message)
    assert "(nbody.Gravity(), spring" in sentence
    assert "NBody(..., gravity=False)" in sentence


def test_forces_with_gravity_or_gravity_false_do_not_warn():
    for forces, gravity in ((None, True), ([nbody.Gravity(), drag], True)):
        nbody.NBody(_BODIES, forces, gravity=gravity)
    nbody.NBody(_BODIES, drag, gravity=False)
    system = nbody.NBody(_BODIES, [nbody.Gravity(), drag])
    # No pytree operation makes it anew.
    jax.tree.map(lambda a: a, eqx.tree_at(lambda s: s.forces, system, (drag,)))
