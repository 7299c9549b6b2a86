"""Advection: order, conservation and derivatives of every scheme."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim import pde
from diffsim.pde._finite_volume import _weno


class Quadratic(pde.AbstractReconstruction):
    """The parabola through the cell that the flow comes from and both beside it."""

    order, width, limited = 3, 2, False

    def reconstruct(self, views):
        a, b, c, d = views
        return (-a + 6 * b + 3 * c) / 8, (3 * b + 6 * c - d) / 8


class Wide(pde.AbstractReconstruction):
    """Looks further than its order needs."""

    order, width, limited = 3, 3, False

    def reconstruct(self, views):
        return Quadratic().reconstruct(views[1:-1])


#: The last two take the code of others: they are slow.
SCHEMES = [
    (pde.Upwind(), 1),
    (pde.Central(4), 4),
    (pde.MUSCL(), 2),
    (Wide(), 3),
    (pde.WENO5(), 5),
    (pde.Central(2), 2),
    (Quadratic(), 3),
]
ROWS = first_plain(SCHEMES, 5)
CPU_ONLY = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="what is read is a program for CPUs"
)
IDS = [type(s).__name__ + str(o) for s, o in SCHEMES]


def wave(x):
    return jnp.exp(jnp.sin(2 * jnp.pi * x))


def ring(n):
    return pde.Domain(pde.Grid(n))


#: Of velocities of every kind; plain, every scheme with one of them.
KINDS = ["number", "cells", "faces"]
WITH_VELOCITY = [
    pytest.param(kind, *row, id=f"{kind}-{name}", marks=marks)
    for i, (row, name) in enumerate(zip(SCHEMES, IDS, strict=True))
    for kind in KINDS
    for marks in [() if i < 5 and kind == KINDS[i % 3] else pytest.mark.slow]
]


@pytest.mark.parametrize(("kind", "scheme", "order"), WITH_VELOCITY)
def test_schemes_have_their_order_in_value_and_derivative_by_velocity(
    scheme, order, kind
):
    """−(v u)' of smooth fields, v positive, negative and varying."""

    def errors(n, sign):
        domain = ring(n)
        (x,), (face,) = domain.grid.centers, domain.grid.faces(0)

        def v(p, x):
            varying = 0 if kind == "number" else jnp.sin(2 * jnp.pi * x) / 3
            return sign * p * (1 + varying)

        def given(p):
            if kind == "number":
                return v(p, x[0])
            return v(p, x)[None] if kind == "cells" else (v(p, face),)

        def rate(p):
            return pde.advection(wave(x), given(p), domain, scheme=scheme)

        def exact(p):
            return -jax.vmap(jax.grad(lambda x: v(p, x) * wave(x)))(x)

        both = jax.jit(lambda p: [jax.jvp(f, (p,), (1.0,)) for f in (rate, exact)])
        pairs = both(0.7)
        return [float(jnp.mean(jnp.abs(a - b))) for a, b in zip(*pairs, strict=True)]

    if kind == "faces":
        order = min(order, 2)
    for sign in (1, -1):
        found = np.log2(np.divide(errors(64, sign), errors(128, sign)))
        assert np.all(found > order - 0.15), found


@pytest.mark.parametrize(("scheme", "order"), ROWS, ids=IDS)
def test_reconstruction_of_mirrored_cells_exchanges_sides(scheme, order):
    """Which is how advection finds the side that the flow comes from."""
    del order
    views = list(
        jnp.asarray(np.random.default_rng(0).normal(size=(2 * scheme.width, 50)))
    )
    left, right = scheme.reconstruct(views)
    np.testing.assert_allclose(
        scheme.reconstruct(views[::-1]), (right, left), rtol=1e-13
    )


@pytest.mark.parametrize(("scheme", "order"), first_plain(SCHEMES, 3), ids=IDS)
def test_derivative_at_zero_velocity_is_that_of_positive_flow(scheme, order):
    del order

    def rate(v):
        domain = ring(32)
        return pde.advection(wave(domain.grid.centers), v, domain, scheme=scheme)

    found = jax.jacfwd(rate)(jnp.asarray(0.0))
    np.testing.assert_allclose(found, rate(jnp.asarray(1e-3)) / 1e-3, atol=1e-10)


@pytest.mark.parametrize(("scheme", "order"), first_plain(SCHEMES, 3), ids=IDS)
def test_advection_is_conservative(scheme, order):
    del order
    domain = pde.Domain(pde.Grid((9, 8), 0.0, (1.0, 2.0)))
    x, y = domain.grid.centers
    u = jnp.sin(7 * x) * y
    swirl = jnp.stack([jnp.cos(3 * y) + x, jnp.sin(5 * x)])
    rate = pde.advection(u, swirl, domain, scheme=scheme)
    assert abs(jnp.sum(rate)) < 1e-12 * jnp.sum(jnp.abs(rate))


@pytest.mark.parametrize("scheme", [pde.MUSCL(), pde.WENO5()], ids=["MUSCL", "WENO5"])
@pytest.mark.parametrize("scale", first_plain([1e-3, 1e5, 1.0], 2))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_limited_schemes_make_no_new_extrema_in_any_units(scheme, scale, dtype):
    domain = ring(64)
    (x,) = domain.grid.centers
    u = scale * jnp.where(jnp.abs(x - 0.5) < 0.2, 1.0, 0.0).astype(dtype)
    change = jax.jit(lambda u: pde.advection(u, 1.0, domain, scheme=scheme))

    def step(u, _):
        first = u + 0.005 * change(u)
        second = (3 * u + first + 0.005 * change(first)) / 4
        return (u + 2 * (second + 0.005 * change(second))) / 3, None

    u, _ = jax.lax.scan(step, u, length=40)
    assert u.dtype == dtype
    # van Albada's limiter and WENO are essentially, not strictly, without overshoots.
    assert -3e-3 * scale < jnp.min(u) and jnp.max(u) < (1 + 3e-3) * scale
    assert np.sum(np.abs(np.asarray(u) / scale - 0.5) < 0.4) < 12


@pytest.mark.parametrize(
    "scheme",
    first_plain(
        [
            *(pde.MUSCL(f) for f in (pde.van_albada, pde.van_leer)),
            pde.WENO5(),
            pde.MUSCL(pde.minmod),
        ],
        3,
    ),
)
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)]
)
def test_derivatives_at_constant_fields_are_finite(scheme, dtype):
    """Second ones too; at u = 0 and where u is constant nothing is divided by zero."""
    domain = ring(7)

    def total(u):
        return jnp.sum(pde.advection(u, 1.0, domain, scheme=scheme) ** 2)

    slopes = jax.jit(lambda u: (jax.jacrev(total)(u), jax.hessian(total)(u)))
    for value in (0.0, 1e-9, 1.0):
        u = jnp.full(7, value, dtype)
        assert all(np.all(np.isfinite(a)) for a in slopes(u))


@pytest.mark.parametrize("scheme", [pde.MUSCL(), pde.WENO5()], ids=["MUSCL", "WENO5"])
def test_derivatives_match_finite_differences_of_the_discrete_map(scheme):
    """Beside differences of it, on smooth data and on a jump."""
    domain = pde.Domain(pde.Grid((8, 7)), (pde.Inflow(0.3), pde.Periodic()))
    key = jax.random.key(2)
    u, step = jax.random.normal(key, (2, 8, 7))
    u = u + 3 * (domain.grid.centers[0] > 0.5)

    @jax.jit
    def rate(u):
        return pde.advection(u, (0.7, -0.4), domain, scheme=scheme)

    _, forward = jax.jvp(rate, (u,), (step,))
    h = 1e-5
    differences = (rate(u + h * step) - rate(u - h * step)) / (2 * h)
    np.testing.assert_allclose(forward, differences, rtol=1e-6, atol=1e-6)
    w = jnp.cos(jnp.arange(56.0)).reshape(8, 7)
    _, back = jax.vjp(rate, u)
    np.testing.assert_allclose(
        jnp.sum(w * forward), jnp.sum(back(w)[0] * step), rtol=1e-11
    )


def test_custom_derivative_of_van_albada_matches_its_formula():
    """Written by hand, by all three arguments and of the second order."""
    a, b = jax.random.normal(jax.random.key(0), (2, 50))
    rounding = jnp.linspace(0, 2, 50)

    def formula(a, b, e):
        return jnp.sum((a + b) * (a * b + e) / (a**2 + b**2 + 2 * e))

    def ours(*given):
        return jnp.sum(pde.van_albada(*given))

    point, step = (a, b, rounding), (jnp.sin(a), jnp.cos(b), rounding)

    def derivatives(f):
        slope = jax.grad(f, (0, 1, 2))
        both = jax.jvp(f, point, step), jax.jvp(slope, point, step)
        return *both, jax.value_and_grad(f)(*point), jax.grad(f, 1)(*point)

    found, exact = jax.jit(lambda: (derivatives(ours), derivatives(formula)))()
    for got, want in zip(*map(jax.tree.leaves, (found, exact)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_custom_derivative_of_weno_matches_its_formula():
    """By what counts as rounding too, where it is large; of the second order, too."""
    point = tuple(jax.random.normal(jax.random.key(1), (4, 50)))
    point += (jnp.linspace(0.1, 2, 50),)
    steps = tuple(jax.random.normal(jax.random.key(2), (5, 50)))
    formula = _weno._change.__wrapped__

    def derivatives(f):
        def slope(*point):
            return jax.grad(lambda *x: jnp.sum(f(*x)), tuple(range(5)))(*point)

        return jax.jit(lambda *at: [jax.jvp(g, at, steps) for g in (f, slope)])(*point)

    found = map(jax.tree.leaves, map(derivatives, (_weno._change, formula)))
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_van_albada_in_float32_matches_float64_for_large_values():
    """In value and derivatives, where the cube of a difference is infinite."""
    a, b = jnp.asarray([6e12, 1e10, 0.0]), jnp.asarray([6e12, 3e9, 2e13])

    def found(dtype):
        point = a.astype(dtype), b.astype(dtype), (1e-7 * a**2 + 1).astype(dtype)
        steps = point[1], 2 * point[0], 0 * point[2]
        return pde.van_albada(*point), *jax.jvp(pde.van_albada, point, steps)

    for got, want in zip(found("float32"), found("float64"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@CPU_ONLY
@pytest.mark.parametrize(("scheme", "order"), ROWS, ids=IDS)
def test_limited_fluxes_are_materialized_once(scheme, order):
    """Read from the program of two steps; else one takes up to twice its time."""
    del order
    domain = pde.Domain(pde.Grid((24, 20)))
    velocity = (jnp.ones((25, 20)), jnp.ones((24, 21)))

    def step(u, velocity):
        return u + 1e-3 * pde.advection(u, velocity, domain, scheme=scheme)

    def run(u, velocity):
        return jax.lax.scan(lambda u, _: (step(u, velocity), None), u, length=2)[0]

    program = jax.jit(run).lower(jnp.ones((24, 20)), velocity).compile().as_text()
    lines = program.splitlines()
    assert any(" while(" in line for line in lines)
    written = [line for line in lines if " dynamic-update-slice(" in line]
    for shape in ("[25,20]", "[24,21]"):
        assert any(f"f64{shape}" in line for line in written) == scheme.is_nonlinear
        kept = [line for line in lines if " while(" in line and f"pred{shape}" in line]
        assert not kept


@pytest.mark.parametrize(
    "scheme", [pde.MUSCL(), pde.MUSCL(pde.van_leer), pde.WENO5()], ids=str
)
def test_rate_is_continuous_across_powers_of_two(scheme):
    """What counts as rounding has no jumps, of which no derivative would know."""
    (x,) = ring(32).grid.centers

    def rate(level):
        u = level + 1e-7 * jnp.sin(2 * jnp.pi * x)
        return pde.advection(u, jnp.asarray(1.0), ring(32), scheme=scheme)

    beside = rate(1 + 1e-5) - rate(1 - 1e-5)
    assert jnp.max(jnp.abs(beside)) < 1e-4 * jnp.max(jnp.abs(rate(1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 4])
def test_divergence_and_curl_have_their_order_up_to_boundaries(order):
    def field(x):
        return jnp.stack(
            [
                jnp.sin(2 * x[0] + x[1]),
                jnp.cos(x[1] + x[0] * x[-1]),
                jnp.exp(x[0] * x[-1]),
            ]
        )

    def errors(n, ndim):
        grid = pde.Grid((n, n - 3, n - 5)[:ndim], 0.1, 1.0)
        wall = pde.Dirichlet(lambda t, x: field(x)[:ndim])
        domain, x = pde.Domain(grid, wall), grid.centers
        v = field(x)[:ndim]
        points = jnp.moveaxis(x, 0, -1).reshape(-1, ndim)
        slopes = jax.vmap(jax.jacfwd(lambda x: field(x)[:ndim]))(points)
        turns = [(0, 1)] if ndim == 2 else [(1, 2), (2, 0), (0, 1)]
        curl = jnp.stack([slopes[:, j, i] - slopes[:, i, j] for i, j in turns])
        trace = jnp.trace(slopes, axis1=1, axis2=2)
        found = pde.curl(v, domain, order=order).reshape(len(turns), -1)
        spread = pde.divergence(v, domain, order=order).reshape(-1)
        return [float(jnp.max(jnp.abs(a))) for a in (found - curl, spread - trace)]

    for ndim in (2, 3):
        ratio = np.divide(errors(12, ndim), errors(24, ndim))
        assert np.all(np.log2(ratio) > order - 0.35), ratio
