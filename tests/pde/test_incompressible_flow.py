"""Incompressible flow: exact for its discrete operators, of order two otherwise."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim.verify import check_simulation


TURN = 2 * np.pi


def vortices(x):
    """Taylor and Green's."""
    return jnp.stack([-jnp.cos(x[0]) * jnp.sin(x[1]), jnp.sin(x[0]) * jnp.cos(x[1])])


@pytest.mark.parametrize(
    "walls", [pytest.param(pde.Periodic(), marks=pytest.mark.slow), pde.FreeSlip()]
)
def test_taylor_green_decays_at_discrete_rate_with_derivative(walls):
    """μ = Σ 2 ν (cos Δx − 1)/Δx²: pressure takes all that they carry, in every stage,
    so that a step of Heun's method multiplies by 1 + hμ + (hμ)²/2."""
    # Between free walls the vortices are shifted by a quarter of a wave.
    shift = 0.0 if isinstance(walls, pde.Periodic) else np.pi / 2
    grid = pde.Grid((12, 12), shift, TURN + shift)
    rate = 4 * (np.cos(TURN / 12) - 1) / (TURN / 12) ** 2
    z, nu = 0.1 * 0.05 * rate, 0.1

    def run(nu):
        flow = pde.IncompressibleFlow(nu, grid, walls, initial=vortices)
        return ds.simulate(flow, 0.5, ds.Method(diffrax.Heun(), 0.05)).final.y

    flow = pde.IncompressibleFlow(nu, grid, walls, initial=vortices)
    start = eqx.filter_jit(flow.initial_state)()
    both = jax.jit(lambda nu: jax.jvp(run, (nu,), (1.0,)))(nu)
    for y, slope, y0 in zip(*both, start, strict=True):
        factor = 1 + z + z**2 / 2
        change = 10 * factor**9 * (1 + z) * z / nu
        np.testing.assert_allclose(y, factor**10 * y0, atol=1e-12)
        np.testing.assert_allclose(slope, change * y0, atol=1e-12)


def stream(t, x):
    return jnp.stack([4 * x[1] * (1 - x[1]) * (1 + jnp.sin(3 * t)), 0 * x[1]])


LID = pde.NoSlip((1.0, 0.0))
WALLS = {
    "shear": (pde.Periodic(), (pde.FreeSlip(), LID)),
    "channel": ((pde.Inflow(stream), pde.Outflow()), pde.NoSlip()),
    "cavity": (pde.NoSlip(), (pde.NoSlip(), LID)),
    "jet": ((pde.Inflow((1.0, 0.3)), pde.Outflow()), (pde.Outflow(), pde.FreeSlip())),
}
EULER = ds.Method(diffrax.Euler(), 0.01)
HEUN = ds.Method(diffrax.Heun(), 0.01)


def swirl(x):
    return jnp.stack([jnp.sin(3 * x[1]) + x[0], jnp.cos(2 * x[0]) * x[1]])


@eqx.filter_jit
def rate_of(flow, t, y):
    return flow.terms().vf(t, y, flow)


def outward(flow, t, y):
    u, v = flow.velocities(t, y)
    dx, dy = flow.grid.spacing
    return np.diff(u, axis=0) / dx + np.diff(v, axis=1) / dy


@pytest.mark.parametrize("name", first_plain(WALLS, 2))
def test_velocity_is_divergence_free(name):
    grid = pde.Grid((8, 6), (0.0, 0.1), (1.5, 1.0))
    flow = pde.IncompressibleFlow(0.05, grid, WALLS[name], initial=swirl)
    run = ds.simulate(flow, 0.3, EULER)
    assert np.max(np.abs(outward(flow, 0.3, run.final.y))) < 1e-12
    # The rate itself keeps it, where nothing that is prescribed moves.
    if name != "channel":
        change = rate_of(flow, 0.3, run.final.y)
        rest = flow._space.outward_rate(change, None)
        assert np.max(np.abs(rest)) < 1e-11 * max(np.max(np.abs(a)) for a in change)


def test_inflow_equals_outflow():
    grid = pde.Grid((8, 6))
    flow = pde.IncompressibleFlow(0.05, grid, WALLS["channel"], initial=swirl)
    run = ds.simulate(flow, 0.3, EULER)
    u, v = flow.velocities(0.3, run.final.y)
    y = grid.centers[1, 0]
    np.testing.assert_allclose(u[0], 4 * y * (1 - y) * (1 + np.sin(0.9)), rtol=1e-14)
    np.testing.assert_allclose(np.sum(u, axis=1), np.sum(u[0]), rtol=1e-12)
    np.testing.assert_array_equal(v[:, [0, -1]], 0)


@pytest.mark.parametrize("walls", first_plain([pde.FreeSlip(), pde.Periodic()]))
def test_inviscid_rate_conserves_energy(walls):
    grid = pde.Grid((7, 6), 0.0, (1.0, 1.3))
    flow = pde.IncompressibleFlow(0.0, grid, walls, initial=swirl)
    y = eqx.filter_jit(flow.initial_state)()
    rate = rate_of(flow, 0.0, y)
    work = [np.sum(a * np.asarray(b)) for a, b in zip(y, rate, strict=True)]
    size = sum(np.sum(np.abs(a * np.asarray(b))) for a, b in zip(y, rate, strict=True))
    assert abs(sum(work)) < 1e-13 * size


def test_channel_flow_approaches_poiseuille_profile():
    """u = y (1 − y) / 2ν under a unit force, of which second differences are exact."""
    n = 8
    grid = pde.Grid((4, n))
    walls = (pde.Periodic(), pde.NoSlip())
    flow = pde.IncompressibleFlow(0.5, grid, walls, forcing=(1.0, 0.0))
    found = ds.simulate(flow, 8.0, ds.Method(diffrax.Heun(), 0.01)).states
    y = (np.arange(n) + 0.5) / n
    np.testing.assert_allclose(found[0], np.tile(y * (1 - y), (4, 1)), rtol=1e-10)
    np.testing.assert_allclose(found[1], 0, atol=1e-14)


def test_pressure_balances_gradient_forcing():
    """∇p = f where nothing moves."""
    grid = pde.Grid((6, 5))
    flow = pde.IncompressibleFlow(0.1, grid, pde.NoSlip(), forcing=(0.3, -1.0))
    p = jax.jit(lambda: flow.pressure(0.0, flow.initial_state()))()
    x, y = grid.centers - 0.5
    np.testing.assert_allclose(p, 0.3 * x - y, atol=1e-13)


def pipe(dtype=jnp.float64):
    """Everything at once on a few cells."""
    grid = pde.Grid((4, 3), jnp.zeros(2, dtype), jnp.asarray([1.2, 1.0], dtype))
    walls = ((pde.Inflow((1.0, 0.2)), pde.Outflow()), (pde.NoSlip(), LID))
    body = pde.Obstacle(
        pde.Ball((0.5, 0.4), 0.3),
        velocity=(0.1, 0.2),
        penalization_time=0.1,
        mask_width=0.2,
    )
    return pde.IncompressibleFlow(
        jnp.asarray(0.1, dtype),
        grid,
        walls,
        forcing=(0.3, -0.2),
        obstacle=body,
        initial=swirl,
    )


class Gust(eqx.Module):
    """An inflow that changes with time."""

    strength: jax.Array

    def __call__(self, t, x):
        return self.strength * jnp.stack([1 + jnp.sin(5 * t) * x[1], 0.3 * x[1]])


def gusty():
    grid = pde.Grid((3, 4))
    walls = ((pde.Inflow(Gust(jnp.asarray(0.7))), pde.Outflow()), pde.FreeSlip())
    rng = np.random.default_rng(0)
    start = [jnp.asarray(rng.normal(size=s)) for s in ((3, 4), (3, 3))]
    return pde.IncompressibleFlow(0.1, grid, walls, initial=tuple(start))


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_gradients_are_correct_for_every_parameter():
    method = ds.Method(diffrax.Euler(), 0.02)
    check_simulation(gusty(), [0.04, 0.06], method).raise_if_failed()


def test_forward_and_reverse_derivatives_agree_with_differences():
    """Of a radius, which moves nothing but the edge of a mask."""
    flow = pipe()

    def after(radius):
        other = eqx.tree_at(lambda f: f.obstacle.distance.radius, flow, radius)
        return ds.simulate(other, 0.1, EULER, observe=other.force, throw=False).states

    radius, small = flow.obstacle.distance.radius, 1e-5
    weights = jnp.array([1.0, -0.7])

    @jax.jit
    def derivatives(radius):
        pull = jax.vjp(after, radius)[1]
        return *jax.jvp(after, (radius,), (1.0,)), pull(weights)[0]

    _, slope, back = derivatives(radius)
    np.testing.assert_allclose(back, weights @ slope, rtol=1e-10)
    # What is left of a central difference is its third derivative and rounding.
    ahead, behind = (derivatives(radius + s)[0] for s in (small, -small))
    apart = (ahead - behind) / (2 * small)
    np.testing.assert_allclose(slope, apart, rtol=1e-7)


def test_initial_field_at_cell_centers_is_averaged_onto_faces():
    """By means of both cells beside a face, cos Δx/2 of these waves."""
    walls = (pde.Periodic(), pde.Periodic())
    grid = pde.Grid((12, 12), 0.0, TURN)
    given = {"initial": vortices(grid.centers)}, {"initial": vortices}
    flows = (pde.IncompressibleFlow(0.1, grid, walls, **one) for one in given)
    start, exact = (eqx.filter_jit(flow.initial_state)() for flow in flows)
    for a, b in zip(start, exact, strict=True):
        np.testing.assert_allclose(a, np.cos(grid.spacing[0] / 2) * b, atol=1e-14)


def test_precision_is_that_of_the_initial_field():
    def dtypes(flow):
        return {a.dtype for a in jax.eval_shape(flow.initial_state)}

    cells = jnp.zeros((2, 8, 8), jnp.float32)
    flow = pde.IncompressibleFlow(0.1, pde.Grid((8, 8)), pde.NoSlip(), initial=cells)
    assert dtypes(flow) == {jnp.dtype(jnp.float32)}
    flow = pde.IncompressibleFlow(0.1, pde.Grid((8, 8)), pde.NoSlip(), initial=(1, 0))
    assert dtypes(flow) == {jnp.dtype(jnp.float64)}


@pytest.mark.slow
def test_single_precision_stays_single():
    run = ds.simulate(pipe(jnp.float32), 0.1, HEUN)
    assert run.states.dtype == jnp.float32
    assert {a.dtype for a in run.final.y} == {jnp.dtype(jnp.float32)}
    np.testing.assert_allclose(
        run.states, ds.simulate(pipe(), 0.1, HEUN).states, atol=2e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("flow", [pipe, pytest.param(gusty, marks=pytest.mark.slow)])
def test_implicit_friction_and_drag_match_explicit_steps(flow):
    exact = ds.simulate(flow(), 0.2, ds.Method(diffrax.Tsit5(), 0.005)).states
    found = ds.simulate(flow(), 0.2, ds.Method(integrators.KenCarp3(), 0.005)).states
    # A third-order error of 40 steps.
    np.testing.assert_allclose(found, exact, atol=1e-5)


@pytest.mark.slow
def test_derivatives_pass_through_implicit_friction():
    def after(nu, solver):
        flow = eqx.tree_at(lambda f: f.viscosity, gusty(), nu)
        run = ds.simulate(flow, 0.1, ds.Method(solver, 0.01), throw=False)
        return run.states[:, 1]

    nu, solver = jnp.asarray(0.1), integrators.KenCarp3()
    exact = jax.jit(jax.jacfwd(lambda nu: after(nu, diffrax.Bosh3())))(nu)
    slope = jax.jit(jax.jacfwd(lambda nu: after(nu, solver)))(nu)
    back = jax.jit(jax.jacrev(lambda nu: after(nu, solver)))(nu)
    np.testing.assert_allclose(back, slope, rtol=1e-10, atol=1e-11)
    # A third-order error of 10 steps.
    np.testing.assert_allclose(slope, exact, atol=2e-3 * np.max(np.abs(exact)))


def test_force_on_obstacle_is_momentum_lost_by_periodic_flow():
    grid = pde.Grid((8, 6))
    body = pde.Obstacle(pde.Ball((0.4, 0.5), 0.2), penalization_time=0.05)
    flow = pde.IncompressibleFlow(
        0.01, grid, pde.Periodic(), obstacle=body, initial=swirl
    )
    y = eqx.filter_jit(flow.initial_state)()
    lost = [-np.sum(a) * grid.volume for a in rate_of(flow, 0.0, y)]
    np.testing.assert_allclose(eqx.filter_jit(flow.force)(0.0, y), lost, rtol=1e-11)


@pytest.mark.slow
def test_three_dimensions_reduce_to_two():
    flat = pde.Grid((6, 5))
    deep = pde.Grid((6, 5, 3))
    walls = WALLS["cavity"]
    start = swirl(flat.centers)
    flow = pde.IncompressibleFlow(0.05, flat, walls, initial=swirl)

    def spatial(x):
        return jnp.concatenate([swirl(x), 0 * x[:1]])

    walls = (pde.NoSlip(), (pde.NoSlip(), pde.NoSlip((1.0, 0.0, 0.0))), pde.FreeSlip())
    cube = pde.IncompressibleFlow(0.05, deep, walls, initial=spatial)
    found = ds.simulate(cube, 0.1, HEUN).states
    assert found.shape == (3, 6, 5, 3) and start.shape == (2, 6, 5)
    for k in range(3):
        np.testing.assert_allclose(
            found[:2, ..., k], ds.simulate(flow, 0.1, HEUN).states, atol=1e-13
        )
    np.testing.assert_allclose(found[2], 0, atol=1e-14)


def test_obstacle_continues_through_periodic_side():
    """What it feels does not know where its period begins."""
    grid = pde.Grid((16, 8), upper=(2.0, 1.0))
    walls = (pde.Periodic(), pde.NoSlip())

    @jax.jit
    def felt(x):
        body = pde.Obstacle(pde.Ball(jnp.stack([x, 0.4]), 0.2), penalization_time=0.02)
        flow = pde.IncompressibleFlow(
            0.05, grid, walls, forcing=(1.0, 0.0), obstacle=body
        )
        return ds.simulate(flow, 0.1, EULER, observe=flow.force).states

    middle = felt(jnp.asarray(1.0))
    assert middle[0] > 0.1
    for x in (0.0, 0.125, 2.0):
        np.testing.assert_allclose(felt(jnp.asarray(x)), middle, rtol=1e-12, atol=1e-14)


def test_force_without_obstacle_is_zero():
    flow = pde.IncompressibleFlow(0.1, pde.Grid((4, 4)), pde.NoSlip())
    np.testing.assert_array_equal(flow.force(0.0, flow.initial_state()), np.zeros(2))
