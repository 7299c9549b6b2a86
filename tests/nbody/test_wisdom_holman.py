"""Wisdom and Holman's map: as REBOUND's, reversible, with exact derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rebound
import scipy.integrate
from rows import first_plain

from diffsim import nbody, problems
from diffsim.simulations import (
    Checkpointed,
    Method,
    Reversible,
    simulate,
)


#: Of Jupiter, in units of the outer Solar System below.
PERIOD = 11.86 * 2 * np.pi
NAMES = {
    "jacobi": "jacobi",
    "democratic heliocentric": "democraticheliocentric",
    "whds": "whds",
}


def outer_planets():
    simulation = rebound.Simulation()
    simulation.add("outer solar system")
    simulation.move_to_com()
    return simulation


def by_rebound(simulation, step, steps, **options):
    """Positions after WHFast's steps."""
    simulation.integrator = "whfast"
    simulation.integrator.safe_mode = 0
    for name, value in options.items():
        setattr(simulation.integrator, name, value)
    simulation.dt = step
    simulation.steps(steps)
    simulation.synchronize()
    return np.array([p.xyz for p in simulation.particles])


def after(system, step, steps, **options):
    method = Method(nbody.WisdomHolman(**options), step=step)
    return simulate(system, steps * step, method).states


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param({}, {}, marks=pytest.mark.slow),
        pytest.param(
            {"coordinates": "democratic heliocentric"}, {}, marks=pytest.mark.slow
        ),
        pytest.param({"coordinates": "whds"}, {}, marks=pytest.mark.slow),
        *(
            pytest.param({"corrector": n}, {"corrector": n}, marks=pytest.mark.slow)
            for n in (3, 5, 7, 11, 17)
        ),
        *(
            pytest.param(
                {"kernel": name, "corrector": 17},
                {"kernel": name.replace(" ", ""), "corrector": 17},
                marks=[pytest.mark.slow] * (name != "composition"),
            )
            for name in ("modified kick", "lazy", "composition")
        ),
    ],
)
def test_steps_are_those_of_rebound(ours, theirs):
    coordinates = ours.get("coordinates", "jacobi")
    theirs = theirs | {"coordinates": NAMES[coordinates]}
    step, steps = 0.0123 * PERIOD, 300
    expected = by_rebound(outer_planets(), step, steps, **theirs)
    found = after(nbody.NBody.from_rebound(outer_planets()), step, steps, **ours)
    # roundings of 300 steps in 30 au; of the lazy kick, whose own are larger, 6e-12
    np.testing.assert_allclose(found.positions, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("coordinates", first_plain(list(NAMES)[1::-1]))
def test_test_particles_are_those_of_rebound(coordinates):
    simulation = outer_planets()
    simulation.N_active = 5
    simulation.add(a=2.5, e=0.1, inc=0.2)
    system = nbody.NBody.from_rebound(simulation)
    found = after(system, 0.2, 200, coordinates=coordinates).positions
    expected = by_rebound(simulation, 0.2, 200, coordinates=NAMES[coordinates])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def energy_error(system, step, time, **options):
    states = after(system, step, round(time / step), **options)
    start = nbody.State(system.bodies.positions, system.bodies.velocities)
    return abs(nbody.energy(system, states) / nbody.energy(system, start) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "bound"), [(0.123, 1e-4), (0.0123, 1e-6), (0.00123, 1e-8)]
)
def test_energy_is_held_as_published(share, bound):
    """REBOUND's own bounds over 1000 orbits of Jupiter."""
    system = problems.outer_solar_system()
    assert energy_error(system, share * PERIOD, 1000 * PERIOD) < bound


@pytest.mark.slow
def test_energy_error_falls_as_step_squared_and_as_the_perturbation():
    def error(step, scale, **options):
        system = problems.outer_solar_system()
        masses = system.bodies.masses.at[1:].multiply(scale)
        system = eqx.tree_at(lambda s: s.bodies.masses, system, masses)
        times = 8.0 * np.arange(0, 200)
        method = Method(nbody.WisdomHolman(**options), step=step)
        energy = nbody.energy(system, simulate(system, times, method).states)
        return np.ptp(energy / energy[0])

    assert error(1.0, 1.0) / error(0.5, 1.0) == pytest.approx(4, rel=0.1)
    # of the energy of planets, which is proportional to them itself
    assert error(1.0, 1.0) / error(1.0, 0.1) == pytest.approx(10, rel=0.15)
    # a corrector leaves what is proportional to the square
    assert error(1.0, 1.0, corrector=3) < 1e-2 * error(1.0, 1.0)


def test_hyperbolic_orbit_keeps_its_energy_to_machine_precision():
    simulation = rebound.Simulation()
    simulation.add(m=1.0)
    simulation.add(m=1e-3, a=-1.0, e=2.5)
    period = -simulation.particles[1].P
    system = nbody.NBody.from_rebound(simulation)
    assert energy_error(system, 0.00512 * period, 100 * period) < 1e-14


def planets():
    """A star, not at rest, and two planets on eccentric, inclined orbits."""
    masses = [1.0, 1e-3, 5e-4]
    positions = [[0.1, 0.0, 0.0], [1.1, 0.0, 0.1], [-0.3, 1.7, 0.0]]
    velocities = [[0.0, -0.1, 0.02], [0.1, 0.95, 0.0], [-0.7, 0.0, 0.1]]
    return nbody.NBody(nbody.Bodies(masses, positions, velocities))


@pytest.mark.slow
def test_outputs_off_the_grid_and_before_the_epoch_follow_the_orbits():
    system = planets()
    method = Method(nbody.WisdomHolman(corrector=3), step=0.05)
    times = np.array([-1.013, -0.5, 0.021, 0.5, 1.234])
    found = simulate(system, times, method).states.positions
    exact = simulate(system, times).states.positions
    # ε² h² of the corrected map
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6)


@pytest.mark.parametrize("coordinates", first_plain(["whds", *list(NAMES)[:2]]))
def test_run_back_returns_to_its_start(coordinates):
    solver = nbody.WisdomHolman(coordinates=coordinates, corrector=3)
    method, system = Method(solver, step=0.05), planets()
    there = simulate(system, np.array([1.013, 2.0]), method).states
    peer = system.to_rebound()
    peer.integrator = "ias15"
    peer.integrate(1.013)
    exact = [p.xyz for p in peer.particles]
    # ε² h² of the corrected map, off the grid
    np.testing.assert_allclose(there.positions[0], exact, rtol=0, atol=2e-6)
    end = there.positions[1], there.velocities[1]
    bodies = nbody.Bodies(system.bodies.masses, *end)
    back = simulate(nbody.NBody(bodies, t0=2.0), 0.0, method).states
    np.testing.assert_allclose(
        back.positions, system.bodies.positions, rtol=0, atol=1e-13
    )


def test_a_step_has_a_derivative_and_is_undone():
    solver, system, time = nbody.WisdomHolman(), planets(), jnp.zeros(())

    def stepped(bodies):
        system = nbody.NBody(bodies)
        given = solver.constants(system), system.terms(), time, time + 0.1
        start = solver.enter(*given, system.initial_state(), system)
        z = solver.forth(*given, start, system)
        back = solver.back(*given, z, system)
        return jnp.concatenate(solver.leave(*given, z, system)), (start, back)

    along = jax.tree.map(
        lambda a: jnp.cos(jnp.arange(a.size)).reshape(a.shape), system.bodies
    )

    @jax.jit
    def found(h):
        moved = jax.tree.map(lambda a, b: a + h * b, system.bodies, along)
        return jax.jvp(stepped, (moved,), (along,), has_aux=True)

    _, slope, (start, back) = found(0.0)
    for a, b in zip(back, start, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-15)
    ahead, behind = (found(h)[0] for h in (1e-5, -1e-5))
    # roundings over the step, and its square
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, rtol=0, atol=1e-8)


def end(system, method):
    state = simulate(system, np.array([0.4, 1.0]), method).states
    return jnp.sum(jnp.sin(3 * state.positions)) + jnp.sum(state.velocities**2)


@pytest.mark.slow
def test_adjoints_agree_with_the_stored_run():
    def gradient(adjoint):
        method = Method(nbody.WisdomHolman(corrector=3), step=0.1, adjoint=adjoint)
        return eqx.filter_jit(eqx.filter_grad(end))(planets(), method)

    stored, *others = map(gradient, (None, Reversible(), Checkpointed(2)))
    for found in others:
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(stored), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", list(NAMES))
def test_derivatives_are_finite_at_singular_points(coordinates):
    """Circles, parabolas and falls, at pericenter in a plane, equal and no masses."""
    positions = jnp.array([[0.0, 0, 0], [2, 0, 0], [4, 0, 0]])
    method = Method(nbody.WisdomHolman(coordinates=coordinates), step=0.1)

    @eqx.filter_jit
    def derivatives(*start):
        def total(start):
            system = nbody.NBody(nbody.Bodies(*start))
            return jnp.sum(simulate(system, 0.3, method).states.positions)

        return jax.jvp(jax.grad(total), (start,), (jax.tree.map(jnp.ones_like, start),))

    for masses in ([1.0, 0.0, 0.0], [1.0, 1e-3, 1e-3], [1.0, 1.0, 1.0]):
        for speeds in ([0.5**0.5, 0.5], [1.0, 0.5**0.5], [0.0, 0.0]):
            velocities = jnp.zeros((3, 3)).at[1:, 1].set(jnp.array(speeds))
            found = derivatives(jnp.array(masses), positions, velocities)
            assert all(np.isfinite(a).all() for a in jax.tree.leaves(found))


@pytest.mark.slow
def test_second_derivatives_on_every_conic_are_those_of_ias15():
    # An ellipse, a parabola, a hyperbola, a fall. Of massless planets the map is exact.
    x = [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 0, 0.5], [0, 0, 2]]
    v = [[0.0, 0, 0], [0, 1.2, 0.1], [0, 1, 0], [0, 1.7, 0], [0, 0, 0.5]]
    masses, at = jnp.eye(5)[0], (jnp.array(x), jnp.array(v))
    rng = np.random.default_rng(1)
    along = tuple(jnp.asarray(rng.normal(size=(5, 3))) for _ in range(2))

    def slope(method):
        def total(phase):
            states = simulate(nbody.NBody(nbody.Bodies(masses, *phase)), 1.0, method)
            states = states.states
            return jnp.sum(jnp.sin(states.positions)) + jnp.sum(states.velocities**3)

        return jax.grad(total)

    ours = slope(Method(nbody.WisdomHolman(), step=0.05))
    _, found = jax.jit(lambda at: jax.jvp(ours, (at,), (along,)))(at)
    theirs, step = jax.jit(slope(Method(nbody.IAS15()))), 3e-5
    sides = (
        theirs(jax.tree.map(lambda a, b, s=s: a + s * b, at, along))
        for s in (step, -step)
    )
    for a, plus, minus in zip(found, *sides, strict=True):
        # Third derivatives, which step² multiplies, are up to a few hundred.
        np.testing.assert_allclose(a, (plus - minus) / (2 * step), rtol=0, atol=2e-6)


def test_forces_of_position_are_part_of_the_kick():
    def pull(t, state):
        return -0.05 * state.positions * (1 + 0.1 * jnp.sin(t))

    system = nbody.NBody(planets().bodies, [nbody.Gravity(), pull])
    terms, y = system.terms(), jnp.stack(system.initial_state())
    # all of it, unsplit
    rate = jax.jit(lambda t, y: jnp.stack(terms.vf(t, (*y.reshape(2, 3, 3),), system)))
    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
    flat = lambda t, y: np.ravel(rate(t, y))  # noqa: E731
    run = scipy.integrate.solve_ivp(flat, (0, 1), y.ravel(), **options)
    exact = run.y[:9, -1].reshape(3, 3).T
    errors = []
    for step in (0.05, 0.025):
        method = Method(nbody.WisdomHolman(coordinates="whds"), step=step)
        found = simulate(system, 1.0, method).states.positions
        errors.append(np.max(np.abs(found - exact)))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)


def test_step_longer_than_half_the_shortest_period_warns():
    method = Method(nbody.WisdomHolman(), step=40.0)
    system = problems.outer_solar_system()
    with pytest.warns(
        UserWarning, match=r"half of 67.57, the time in which Jupiter.* 3.4, 1/20"
    ):
        simulate(system, 0.0, method)
    simulation = rebound.Simulation()
    simulation.add(m=1.0)
    simulation.add(m=1e-3, a=-1.0, e=2.5)
    simulate(nbody.NBody.from_rebound(simulation), 0.0, method)


def test_a_step_too_long_for_the_pericenter_warns_and_so_does_the_wrong_center():
    orbits = nbody.Elements(semi_major_axis=[5.2, 20.0], eccentricity=[0.05, 0.99])
    comet = nbody.NBody(nbody.Bodies.from_elements([1.0, 1e-3, 0.0], orbits))
    with pytest.warns(UserWarning, match="body 2 turns about the center"):
        simulate(comet, 0.0, Method(nbody.WisdomHolman(), step=3.0))
    masses, *rest = comet.bodies.masses, comet.bodies.positions, comet.bodies.velocities
    order = np.array([1, 0, 2])
    wrong = nbody.NBody(nbody.Bodies(masses[order], *(a[order] for a in rest)))
    with pytest.raises(ValueError, match=r"got a mass of 0\.001 and one of 1; put"):
        simulate(wrong, 0.0, Method(nbody.WisdomHolman(coordinates="whds"), step=0.01))
