"""Euler's equations: exact Riemann problems, the vortex, what is kept, derivatives."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain
from scipy.optimize import brentq

import diffsim as ds
from diffsim import integrators, pde


GAMMA = 1.4
#: Left and right (ρ, u, p), the time, and p*, u*, ρ*L, ρ*R of the exact solution.
TUBES = {
    "Sod": (
        ((1.0, 0.0, 1.0), (0.125, 0.0, 0.1), 0.2),
        (0.30313018, 0.92745262, 0.42631943, 0.26557371),
    ),
    "Lax": (
        ((0.445, 0.698, 3.528), (0.5, 0.0, 0.571), 0.12),
        (2.466098, 1.528723, 0.3445685, 1.304085),
    ),
}
SCHEMES = [pde.MUSCL(), pde.WENO5()]
NAMES = ["MUSCL", "WENO5"]


def tube(n, left, right, **options):
    grid, gas = pde.Grid(n), pde.Euler(GAMMA, **options)
    beyond = np.asarray(grid.centers[0]) > 0.5
    rho, u, p = (np.where(beyond, b, a) for a, b in zip(left, right, strict=True))
    start = eqx.filter_jit(gas.state)(rho, u[None], p)
    return pde.Evolution(gas, start, grid, pde.Outflow())


def wave(p, side):
    """Toro (2009), equations 4.6 and 4.7: the jump of u across a wave to p."""
    rho, _, before = side
    sound = np.sqrt(GAMMA * before / rho)
    if p > before:
        a, b = 2 / (GAMMA + 1) / rho, (GAMMA - 1) / (GAMMA + 1) * before
        return (p - before) * np.sqrt(a / (p + b))
    power = (GAMMA - 1) / (2 * GAMMA)
    return 2 * sound / (GAMMA - 1) * ((p / before) ** power - 1)


def behind(p, side):
    """The density between a wave and the contact, and the head and tail of the wave.

    Toro (2009), 4.53, 4.60 and 4.50 to 4.56; speeds of a wave that runs to the left
    into a gas at rest, outwards.
    """
    rho, _, before = side
    sound = np.sqrt(GAMMA * before / rho)
    ratio, g = p / before, (GAMMA - 1) / (GAMMA + 1)
    if p > before:
        speed = sound * np.sqrt(
            (GAMMA + 1) / (2 * GAMMA) * ratio + (GAMMA - 1) / 2 / GAMMA
        )
        return rho * (ratio + g) / (g * ratio + 1), speed, speed
    slower = sound * ratio ** ((GAMMA - 1) / (2 * GAMMA))
    return rho * ratio ** (1 / GAMMA), sound, slower


def exact_density(xi, left, right):
    """At x/t, from the contact and the waves to its sides."""
    jump = right[1] - left[1]
    p = brentq(lambda p: wave(p, left) + wave(p, right) + jump, 1e-6, 50, xtol=1e-14)
    u = left[1] - wave(p, left)
    rho = np.where(xi < u, behind(p, left)[0], behind(p, right)[0])
    for sign, side in ((-1, left), (1, right)):
        _, head, tail = behind(p, side)
        outwards = sign * (xi - side[1])
        fan = 2 / (GAMMA + 1) + (GAMMA - 1) / (GAMMA + 1) * outwards / head
        # Fans and shocks alike: beyond the head, and between head and tail.
        tail = tail + sign * (u - side[1]) if tail < head else head
        inside = (outwards > tail) & (outwards < head)
        with np.errstate(invalid="ignore"):
            rho = np.where(inside, side[0] * fan ** (2 / (GAMMA - 1)), rho)
        rho = np.where(outwards >= head, side[0], rho)
    return rho, (p, u, behind(p, left)[0], behind(p, right)[0])


@pytest.mark.parametrize("scheme", first_plain(SCHEMES), ids=NAMES)
@pytest.mark.parametrize("name", TUBES)
def test_riemann_problems_have_exact_star_states(name, scheme):
    (left, right, t), (p, u, rho_left, rho_right) = TUBES[name]

    def error(n):
        case = tube(n, left, right, scheme=scheme)
        x = np.asarray(case.grid.centers[0])
        found = case.equation.fields(ds.simulate(case, t).states)
        exact, stars = exact_density((x - 0.5) / t, left, right)
        np.testing.assert_allclose(stars, (p, u, rho_left, rho_right), rtol=1e-6)
        return np.mean(np.abs(found[0] - exact)), found, x

    coarse, _, _ = error(200)
    fine, (rho, v, pressure), x = error(400)
    contact = 0.5 + u * t
    for side, density in ((-1, rho_left), (1, rho_right)):
        near = np.argmin(np.abs(x - contact - side * 0.05))
        assert abs(rho[near] / density - 1) < 0.01
        assert abs(v[0, near] / u - 1) < 0.01
        assert abs(pressure[near] / p - 1) < 0.01
    # Of first order at the shock, and of two thirds of it at the contact.
    assert 0.7 < np.log2(coarse / fine) < 1.3


def vortex(x, t, size, strength=5.0):
    """Isentropic, carried along the diagonal (Shu 1998)."""
    away = (x - t + size) % (2 * size) - size
    swirl = strength / (2 * np.pi) * jnp.exp((1 - jnp.sum(away**2, 0)) / 2)
    heat = 1 - (GAMMA - 1) / (2 * GAMMA) * swirl**2
    velocity = 1 + swirl * jnp.stack([-away[1], away[0]])
    return heat ** (1 / (GAMMA - 1)), velocity, heat ** (GAMMA / (GAMMA - 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "order"), [(pde.MUSCL(), 1.9), (pde.WENO5(), 4.5)], ids=NAMES
)
def test_isentropic_vortex_has_the_order_of_the_scheme(scheme, order):
    size, t = 7.0, 1.0

    def error(n):
        grid, gas = pde.Grid((n, n), -size, size), pde.Euler(GAMMA, scheme=scheme)
        start = gas.state(*vortex(grid.centers, 0.0, size))
        # Steps short enough that their third order does not count.
        step = t / int(np.ceil(20 * (n / 32) ** (5 / 3)))
        method = ds.Method(integrators.SSPRK3(), step=step)
        found = ds.simulate(pde.Evolution(gas, start, grid), t, method).states
        return np.mean(np.abs(found[0] - vortex(grid.centers, t, size)[0]))

    assert np.log2(error(48) / error(96)) > order


def box(scheme=None, riemann_solver=None, boundary=None):
    grid, gas = (
        pde.Grid((7, 6)),
        pde.Euler(GAMMA, scheme=scheme, riemann_solver=riemann_solver),
    )
    x, y = grid.centers
    rho = 1 + 0.3 * jnp.sin(6 * x) * jnp.cos(5 * y)
    v = jnp.stack([0.3 * jnp.cos(4 * y + x), 0.2 * jnp.sin(5 * x + y)])
    return pde.Evolution(gas, gas.state(rho, v, 1 + 0.2 * x * y), grid, boundary)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "riemann_solver", first_plain([pde.HLLC(), pde.HLL(), pde.Rusanov()])
)
def test_mass_momentum_and_energy_are_conserved(riemann_solver):
    ring = box(pde.WENO5(), riemann_solver)
    method = ds.Method(diffrax.Euler(), step=0.01)
    states = ds.simulate(ring, [0.0, 0.1], method).states
    before, after = np.sum(states, (2, 3))
    np.testing.assert_allclose(after, before, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
def test_reflecting_walls_conserve_mass_and_energy():
    """Half of a symmetric flow, with a wall in its middle, is half of the flow."""
    method = ds.Method(integrators.SSPRK3(), step=0.01)
    walled = box(pde.WENO5(), boundary=pde.ReflectingWall())
    states = ds.simulate(walled, [0.0, 0.1], method).states
    before, after = np.sum(states, (2, 3))
    np.testing.assert_allclose(after[::3], before[::3], rtol=1e-13)

    half = pde.Grid(20)
    gas = pde.Euler(GAMMA, scheme=pde.WENO5())
    both = jnp.concatenate([half.centers[0], 2 - half.centers[0][::-1]])
    hump = lambda x: 1 + jnp.exp(-30 * (x - 0.6) ** 2)  # noqa: E731
    u = lambda x: jnp.sin(jnp.pi * x)[None]  # noqa: E731
    left = gas.state(hump(half.centers[0]), u(half.centers[0]), 1.0)
    whole = jnp.minimum(both, 2 - both)
    mirrored = u(both)
    whole = gas.state(hump(whole), mirrored, 1.0)
    alone = pde.Evolution(gas, left, half, pde.ReflectingWall())
    twice = pde.Evolution(gas, whole, pde.Grid(40, 0.0, 2.0), pde.ReflectingWall())
    method = ds.Method(integrators.SSPRK3(), step=0.004)
    found, together = (ds.simulate(e, 0.3, method).states for e in (alone, twice))
    np.testing.assert_allclose(found, together[:, :20], rtol=1e-11, atol=1e-11)


def test_stationary_contact_is_preserved():
    """HLLC is exact for it; HLL smears it."""

    def change(riemann_solver):
        case = tube(40, (1.0, 0.0, 1.0), (0.2, 0.0, 1.0), riemann_solver=riemann_solver)
        method = ds.Method(diffrax.Euler(), step=0.002)
        states = ds.simulate(case, [0.0, 0.1], method).states
        return np.max(np.abs(states[1] - states[0]))

    assert change(pde.HLLC()) < 1e-14
    assert change(pde.HLL()) > 0.01


def test_supersonic_flux_is_that_of_the_side_it_comes_from():
    gas = pde.Euler(GAMMA)
    for solver in (pde.HLLC(), pde.HLL()):
        for v in (3.0, -3.0):
            sides = [
                tuple(map(jnp.asarray, side)) for side in ((1.0, v, 1.0), (0.5, v, 0.4))
            ]
            exact = gas.flux(sides[0 if v > 0 else 1], 0)
            np.testing.assert_allclose(solver.flux(gas, *sides, 0), exact, rtol=1e-14)


def test_fields_and_state_are_inverse_of_each_other():
    gas, x = pde.Euler(1.3), pde.Grid((3, 4)).centers
    given = (1 + x[0], jnp.sin(x), 2 + x[1])
    for a, b in zip(gas.fields(gas.state(*given)), given, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_single_precision_stays_single():
    numbers, rest = eqx.partition(box(pde.WENO5()), eqx.is_array)
    numbers = jax.tree.map(lambda a: a.astype(jnp.float32), numbers)
    case = eqx.combine(numbers, rest)
    found = jax.eval_shape(lambda: ds.simulate(case, 0.02).states)
    assert found.dtype == jnp.float32


def test_scalar_velocity_holds_along_every_axis():
    gas, density = pde.Euler(1.4), jnp.linspace(1.0, 2.0, 12).reshape(3, 4)
    uniform = jnp.full((2, 3, 4), 0.3)
    found = gas.state(density, 0.3, 1.0)
    np.testing.assert_array_equal(found, gas.state(density, uniform, 1.0))
    with pytest.raises(ValueError, match=r"velocity must have shape .*, got \(\)"):
        gas.state(1.0, 0.0, 1.0)
