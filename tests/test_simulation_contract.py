"""Every public simulation of bodies passes `check_simulation` in all its leaves."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody
from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.simulations import Checkpointed, Method, simulate
from diffsim.verify import check_simulation, taylor_test


_TIMES = np.array([0.13, 0.4])


def system(forces, *, test_particles=False, t0=0.0):
    bodies = nbody.Bodies(
        [1.0, 0.1, 0.05],
        [[0.0, 0.1, 0.0], [1.0, 0.0, 0.2], [-0.3, 1.5, 0.0]],
        [[0.0, -0.1, 0.0], [0.1, 1.0, 0.0], [0.8, 0.0, 0.1]],
    )
    light = (
        nbody.TestParticles([[0.4, 0.4, 0.4]], [[1.0, -1.0, 0.3]])
        if test_particles
        else None
    )
    return nbody.NBody(bodies, forces, test_particles=light, t0=t0)


def push(t, state):
    return 0.1 * jnp.sin(t) * state.positions


_SOFT = nbody.Gravity(1.1, 0.2)
_RELATIVE = [_SOFT, nbody.PostNewtonian(9.0), push]
_CENTRAL = [_SOFT, nbody.PostNewtonian(9.0, primary=0)]


def obeys_every_law(simulation, times, method):
    contract = check_simulation(simulation, times, method)
    contract.raise_if_failed()
    assert contract.taylor is not None
    # Proven by its slope, and not excused by rounding.
    assert [leaf.name for leaf in contract.taylor.leaves if leaf.flag] == []


# Two steps, on the grid: a fourth of the time to compile.
_EPOCH, _ON_THE_GRID = jnp.asarray(0.05), [0.15, 0.25]


@pytest.mark.usefixtures("one_nesting")
def test_gravity_obeys_every_law():
    alone = system(_SOFT, t0=_EPOCH)
    obeys_every_law(alone, _ON_THE_GRID, Method(Leapfrog(), 0.1))


# Forces of few stages, which are what takes the time to compile.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulation", "times", "method"),
    [
        (
            system(_SOFT, test_particles=True, t0=_EPOCH),
            _ON_THE_GRID,
            Method(Leapfrog(), 0.1),
        ),
        (
            system(_RELATIVE, test_particles=True),
            [0.1, 0.2],
            Method(diffrax.Euler(), 0.1),
        ),
        (
            system(_CENTRAL),
            [0.2, 0.4],
            Method(diffrax.Heun(), 0.1, adjoint=Checkpointed()),
        ),
        (
            system(_SOFT),
            [0.2, 0.4],
            Method(Yoshida4(), 0.1, adjoint=Checkpointed(2)),
        ),
        (system(None), _TIMES, None),
    ],
    ids=[
        "gravity and test particles",
        "all pairs relativistic, driven",
        "relativistic, checkpointed",
        "composed, checkpointed",
        "by default",
    ],
)
def test_simulation_obeys_every_law(simulation, times, method):
    obeys_every_law(simulation, times, method)


def test_every_leaf_of_every_force_has_its_gradient_in_both_modes():
    simulation = system(_RELATIVE, test_particles=True)
    method = Method(diffrax.Euler(), 0.1)
    report = taylor_test(lambda s: simulate(s, 0.2, method), simulation)
    assert set(report.slopes) == {
        "bodies.masses",
        "bodies.positions",
        "bodies.velocities",
        "forces.0.G",
        "forces.0.softening",
        "forces.1.c",
        "test_particles.positions",
        "test_particles.velocities",
    }
    for name, slopes in report.slopes.items():
        assert slopes == pytest.approx({"forward": 2, "reverse": 2}, abs=0.1), name
    assert report.disagreement < 1e-10
