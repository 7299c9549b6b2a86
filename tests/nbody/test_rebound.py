"""Conversion to and from REBOUND simulations."""

import importlib
import sys

import equinox as eqx
import numpy as np
import pytest
import rebound

from diffsim import nbody
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, simulate


def softened_planets():
    simulation = rebound.Simulation()
    simulation.G, simulation.t, simulation.softening = 2.5, 3.0, 0.05
    simulation.add(m=1.0, name="Sun")
    simulation.add(m=1e-3, a=1.0, e=0.1, name="inner")
    simulation.add(m=3e-4, a=1.7, e=0.05, inc=0.2, f=1.0, name="outer")
    simulation.add(a=2.5, f=2.0, name="rock")
    simulation.N_active = 3
    simulation.move_to_com()
    return simulation


def moved(simulation, time):
    simulation.integrator, simulation.dt = "leapfrog", 0.0625
    simulation.integrate(time)
    return [p.xyz for p in simulation.particles]


def test_system_from_rebound_follows_the_trajectories_of_rebound():
    simulation = softened_planets()
    system = nbody.NBody.from_rebound(simulation)
    assert (system.t0, float(system.gravity.G)) == (3.0, 2.5)
    assert float(system.gravity.softening) == 0.05
    assert system.bodies.names == ("Sun", "inner", "outer")
    assert system.test_particles.names == ("rock",)
    states = simulate(system, 4.0, Method(Leapfrog(), 0.0625)).states
    # 16 steps of the same map, rounded in another order
    expected = moved(simulation, 4.0)
    np.testing.assert_allclose(states.positions, expected, rtol=0, atol=1e-13)


def test_system_from_and_to_rebound_moves_as_the_original():
    system = nbody.NBody.from_rebound(softened_planets())
    simulation = system.to_rebound()
    assert (simulation.G, simulation.t, simulation.softening) == (2.5, 3.0, 0.05)
    assert [p.name for p in simulation.particles] == ["Sun", "inner", "outer", "rock"]
    assert simulation.N_active == 3
    np.testing.assert_array_equal(
        moved(simulation, 4.0), moved(softened_planets(), 4.0)
    )


def test_system_without_names_or_test_particles_round_trips():
    simulation = rebound.Simulation()
    simulation.add(m=1.0)
    simulation.add(m=0.5, x=1.0, vy=1.0)
    system = nbody.NBody.from_rebound(simulation)
    assert system.test_particles is None
    again = nbody.NBody.from_rebound(system.to_rebound())
    assert eqx.tree_equal(again, system)


def test_rebound_variational_particles_are_skipped():
    simulation = softened_planets()
    simulation.softening, simulation.N_active = 0.0, -1
    simulation.add_variation()
    assert nbody.Bodies.from_rebound(simulation).masses.size == 4
    assert nbody.NBody.from_rebound(simulation).bodies.masses.size == 4


def test_unsupported_rebound_systems_raise_value_error():
    simulation = softened_planets()
    simulation.N_active = 2
    with pytest.raises(ValueError, match="particle 2 beyond it has the mass 0"):
        nbody.NBody.from_rebound(simulation)
    simulation = softened_planets()
    simulation.gravity = "none"
    with pytest.raises(ValueError, match="simulation has gravity = 'none'"):
        nbody.NBody.from_rebound(simulation)


def test_unsupported_systems_of_diffsim_raise_value_error(monkeypatch):
    system = nbody.NBody.from_rebound(softened_planets())
    pushed = nbody.NBody(system.bodies, [system.gravity, lambda t, state: 0])
    with pytest.raises(ValueError, match="to_rebound needs Gravity alone"):
        pushed.to_rebound()
    with pytest.raises(ValueError, match="system is traced"):
        eqx.filter_jit(lambda s: s.to_rebound())(system)
    monkeypatch.setitem(sys.modules, "rebound", None)
    with pytest.raises(ImportError, match="pip install rebound"):
        system.to_rebound()
    monkeypatch.undo()
    assert importlib.import_module("rebound") is rebound


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("boundary", "periodic"),
        ("boundary", "shear"),
        ("boundary", "open"),
        ("collision", "direct"),
        ("collision", "line"),
        ("N_ghost_x", 2),
        ("N_ghost_z", 1),
    ],
)
@pytest.mark.parametrize("kind", [nbody.NBody, nbody.Bodies])
def test_rebound_boxes_and_collisions_raise_value_error(kind, name, value):
    simulation = softened_planets()
    simulation.softening = 0.0
    setattr(simulation, name, value)
    with pytest.raises(ValueError, match=f"simulation has .*{name} = .*{value}"):
        kind.from_rebound(simulation)


def test_other_gravity_routines_of_rebound_are_accepted():
    simulation = softened_planets()
    for gravity in ("compensated", "tree", "jacobi", "mercurius"):
        simulation.gravity = gravity
        assert nbody.NBody.from_rebound(simulation).bodies.masses.size == 3


def test_additional_forces_of_rebound_warn():
    simulation = softened_planets()
    simulation.additional_forces = lambda pointer: None
    with pytest.warns(UserWarning, match="additional_forces"):
        nbody.NBody.from_rebound(simulation)


@pytest.mark.parametrize("kind", [nbody.NBody, nbody.Bodies])
def test_object_that_is_no_rebound_simulation_raises_value_error(kind):
    with pytest.raises(ValueError, match=r"rebound\.Simulation with particles, got"):
        kind.from_rebound("x.bin")
    with pytest.raises(ValueError, match=r"rebound\.Simulation with particles, got"):
        kind.from_rebound(rebound.Simulation())
