"""Our fixed-step loop and `diffrax.diffeqsolve` take the same steps."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import nbody
from diffsim.integrators import KahanLi6, Leapfrog, Yoshida4, Yoshida8
from diffsim.problems import kepler
from diffsim.simulations import Method, simulate


@pytest.mark.parametrize(
    ("solver", "sign"),
    first_plain(
        [
            (diffrax.Tsit5(), 1),
            # In plain rows those of `SplitFlows` do, test_operator_splitting.py.
            (Yoshida4(), -1),
            (Leapfrog(), 1),
            (KahanLi6(), 1),
            (Yoshida8(), 1),
            (diffrax.Heun(), -1),
            (diffrax.Dopri8(), 1),
        ]
    ),
    ids=lambda x: None if isinstance(x, int) else type(x).__name__,
)
def test_states_on_the_grid_are_those_of_diffeqsolve(solver, sign):
    simulation, step = kepler(), 0.0625
    times = sign * step * np.array([8.0, 32.0, 40.0])
    theirs = diffrax.diffeqsolve(
        simulation.terms(),
        solver,
        0.0,
        times[-1],
        sign * step,
        simulation.initial_state(),
        simulation,
        saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
    ).ys
    ours = simulate(simulation, np.sort(times), Method(solver, step)).states
    expected = np.stack([np.moveaxis(a, 1, 2) for a in theirs])[:, ::sign]
    # rounding of 40 steps; the step is a power of two, so both clocks are exact
    np.testing.assert_allclose(ours.positions, expected[0], rtol=0, atol=3e-14)
    np.testing.assert_allclose(ours.velocities, expected[1], rtol=0, atol=3e-14)


def test_symplectic_solvers_conserve_momenta_to_machine_precision():
    simulation = kepler()
    states = simulate(
        simulation, np.linspace(0, 50, 11), Method(Yoshida4(), 0.1)
    ).states
    momentum = nbody.momentum(simulation, states)
    np.testing.assert_allclose(momentum, np.zeros((11, 3)), atol=2e-15)
    spin = nbody.angular_momentum(simulation, states)
    np.testing.assert_allclose(spin, np.tile(spin[:1], (11, 1)), rtol=1e-13, atol=1e-15)
