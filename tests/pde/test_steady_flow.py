"""Steady flows: where long runs end, published cavities, and their derivatives."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import RESULTS, pde
from diffsim.pde._incompressible._staggered_grid import StaggeredGrid
from diffsim.pde._incompressible._tendencies import friction
from diffsim.pde._incompressible._walls import validate_boundary
from diffsim.pde._steady_state._preconditioners import StokesPreconditioner
from diffsim.pde._steady_state._steady_state import residual_of
from diffsim.verify import taylor_test


def stream(t, x):
    return jnp.stack([4 * x[1] * (1 - x[1]), 0 * x[1]])


LID = pde.NoSlip((1.0, 0.0))
WALLS = {
    "cavity": (pde.NoSlip(), (pde.NoSlip(), LID)),
    "channel": ((pde.Inflow(stream), pde.Outflow()), pde.NoSlip()),
    "jet": ((pde.Inflow((1.0, 0.3)), pde.Outflow()), (pde.Outflow(), pde.FreeSlip())),
    "shear": (pde.Periodic(), (pde.FreeSlip(), LID)),
    "backwards": ((pde.Outflow(), pde.Inflow((-1.0, 0.3))), pde.FreeSlip()),
    "draught": ((pde.Outflow(), pde.Outflow()), (pde.FreeSlip(), LID)),
}


def cavity(nu, n):
    return pde.IncompressibleFlow(nu, pde.Grid((n, n)), WALLS["cavity"])


def irregular(space, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=space.shape(i))) for i in (0, 1))


def product(a, b):
    return sum(np.vdot(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", first_plain(WALLS, 4))
def test_friction_eigenbasis_inverts_friction_for_all_boundaries(name):
    grid = pde.Grid((5, 4), (0.0, 0.1), (1.5, 1.0))
    space = StaggeredGrid(grid, validate_boundary(WALLS[name], grid))
    nu = jnp.asarray(0.3)
    preconditioner = StokesPreconditioner.of(space, nu)
    v = irregular(space)

    @jax.jit
    def there_and_back(v):
        slow = tuple(
            preconditioner._apply_inverse_friction(i, a) for i, a in enumerate(v)
        )
        return slow, friction(space, nu, slow, None)

    slow, rubbed = there_and_back(v)
    # The longest side is 1.5.
    for a, b, c in zip(v, slow, rubbed, strict=True):
        np.testing.assert_allclose(nu / 1.5**2 * b - c, a, atol=1e-12)


@pytest.mark.parametrize("name", first_plain(["jet", "cavity", "shear"]))
def test_preconditioned_adjoints_match_tangents(name):
    """⟨Jv, w⟩ = ⟨v, Jᵀw⟩, of the rate and of its preconditioner."""
    flow = pde.IncompressibleFlow(0.05, pde.Grid((5, 4)), WALLS[name])
    rate, preconditioner = residual_of(flow)
    space = flow._space
    y, v, w = (irregular(space, seed) for seed in range(3))
    for function in (lambda y: rate(y, flow), preconditioner):
        push = jax.jit(lambda y, v, f=function: jax.jvp(f, (y,), (v,))[1])
        pull = jax.jit(lambda y, w, f=function: jax.vjp(f, y)[1](w)[0])
        forward, backward = product(push(y, v), w), product(v, pull(y, w))
        np.testing.assert_allclose(forward, backward, rtol=1e-12)


@eqx.filter_jit
def both(flow, w):
    """The end state and a number of it, with the slope of that by everything."""

    def total(flow):
        found = pde.steady_state_solution(flow, observe=lambda t, y: y, throw=False)
        u = flow.observe(0.0, found.value)
        return jnp.sum(w * u**2), found

    return eqx.filter_value_and_grad(total, has_aux=True)(flow)


@pytest.mark.slow
def test_steady_cavity_matches_long_run_with_derivative_by_viscosity():
    n, nu = 32, 0.01
    w = jnp.asarray(np.random.default_rng(0).normal(size=(2, n, n)))
    (_, found), slope = both(cavity(nu, n), w)
    assert found.status == RESULTS.successful and found.iterations < 20
    method = ds.Method(diffrax.Tsit5(), 0.025, max_steps=2000)
    late = ds.simulate(cavity(nu, n), 40.0, method).final.y
    for a, b in zip(found.value, late, strict=True):
        # What decays most slowly has come down by e^-17.
        np.testing.assert_allclose(a, b, atol=1e-7)
    h = 1e-5
    ends = [both(cavity(nu + s * h, n), w)[0][0] for s in (-1, 1)]
    # What is left of a central difference is h² and rounding over h.
    np.testing.assert_allclose(
        slope.viscosity, (ends[1] - ends[0]) / (2 * h), rtol=1e-6
    )


def extrema(flow):
    """u_min on the vertical and v_max, v_min on the horizontal centre line."""
    # On the faces that lie on the lines: means of both sides would be off by order 2.
    u, v = map(np.asarray, pde.steady_state(flow, observe=flow.velocities))
    m = len(u) // 2

    def peak(line, sign):
        i = np.argmax(sign * line)
        below, here, above = line[i - 1 : i + 2]
        return here - (above - below) ** 2 / (8 * (below - 2 * here + above))

    return [peak(u[m], -1), peak(v[:, m], 1), peak(v[:, m], -1)]


@pytest.mark.slow
def test_cavities_match_published_extrema():
    """Of Marchi et al. (2009) at Reynolds number 100, Botella and Peyret at 1000."""
    slow = extrema(cavity(0.01, 128))
    np.testing.assert_allclose(slow, [-0.2140417, 0.1795728, -0.2538030], rtol=0.002)
    fast = extrema(cavity(0.001, 128))
    np.testing.assert_allclose(fast, [-0.3885698, 0.3769447, -0.5270771], rtol=0.015)


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
    nu = jnp.asarray(0.1, dtype)
    return pde.IncompressibleFlow(nu, grid, walls, forcing=(0.3, -0.2), obstacle=body)


@pytest.mark.slow
def test_gradients_are_correct_for_every_parameter():
    found = taylor_test(lambda flow: pde.steady_state(flow, throw=False), pipe())
    assert found.passed, found
    assert found.disagreement < 1e-10
    assert not any(leaf.flag == "no effect" for leaf in found.leaves)


@pytest.fixture(scope="module")
def observed():
    """The steady flow in the pipe, as observed by default, its force and pressure."""
    flow = pipe()

    def everything(t, y):
        return flow.observe(t, y), flow.force(t, y), flow.pressure(t, y)

    return pde.steady_state(flow, observe=everything)


@pytest.mark.slow
def test_forces_and_pressures_of_steady_flows_are_observed(observed):
    """What the body takes is what a long run says."""
    flow = pipe()
    _, force, pressure = observed
    late = ds.simulate(flow, 20.0, observe=flow.force).states
    np.testing.assert_allclose(force, late, rtol=1e-6)
    assert pressure.shape == (4, 3)


@pytest.mark.slow
def test_batched_flows_match_single_ones():
    def total(nu):
        return jnp.sum(pde.steady_state(cavity(nu, 8), throw=False) ** 2)

    slope, nu = jax.jit(jax.value_and_grad(total)), jnp.array([0.01, 0.1])
    together = jax.jit(jax.vmap(slope))(nu)
    alone = [slope(x) for x in nu]
    # Iterations stop at 2e-12, on other paths of rounding.
    np.testing.assert_allclose(np.transpose(together), alone, rtol=1e-9)


@pytest.mark.slow
def test_single_precision_stays_single(observed):
    found = pde.steady_state(pipe(jnp.float32))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, observed[0], atol=1e-5)


@pytest.mark.slow
def test_undetermined_flow_fails_with_result():
    """Around a torus every uniform flow stays."""

    def swirl(x):
        return jnp.stack([jnp.sin(6 * x[1]), jnp.cos(6 * x[0])])

    grid = pde.Grid((6, 6))
    flow = pde.IncompressibleFlow(0.1, grid, pde.Periodic(), initial=swirl)
    found = pde.steady_state_solution(flow, throw=False)
    assert found.status == RESULTS.steady_state_not_determined
    assert np.all(np.isnan(found.value))


@pytest.mark.slow
def test_channel_has_poiseuille_profile():
    """u = y (1 − y) / 2ν under a unit force, of which second differences are exact."""
    n = 8
    walls = (pde.Periodic(), pde.NoSlip())
    grid = pde.Grid((4, n))
    flow = pde.IncompressibleFlow(0.5, grid, walls, forcing=(1.0, 0.0))
    y = (np.arange(n) + 0.5) / n
    found = pde.steady_state(flow)
    np.testing.assert_allclose(found[0], np.tile(y * (1 - y), (4, 1)), rtol=1e-10)
