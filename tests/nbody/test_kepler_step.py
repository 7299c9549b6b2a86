"""Kepler steps along conics: exact and symplectic, with exact derivatives."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rebound
import scipy.integrate

from diffsim import nbody
from diffsim.nbody._kepler._universal_anomaly import universal_anomaly
from diffsim.verify import taylor_test


EPS = np.finfo(float).eps
#: Circles, a nearly radial ellipse, the parabola, a hyperbola.
ECCENTRICITIES = [0.0, 1e-8, 0.3, 0.9, 0.999, 1.0, 1.5]
step = jax.jit(nbody.kepler_step)


def states(e, count=8, seed=0):
    """States on orbits of pericenter 1 − e or 1 about GM = 1, turned at random.

    By e, q and f and no other element, so that parabolas are among them.
    """
    random = np.random.default_rng(seed)
    q = 1 - e if e < 1 else 1.0
    f = random.uniform(-2, 2, count)
    p = q * (1 + e)
    r, speed = p / (1 + e * np.cos(f)), p**-0.5
    zero = 0 * f
    x = np.stack([r * np.cos(f), r * np.sin(f), zero], -1)
    v = speed * np.stack([-np.sin(f), e + np.cos(f), zero], -1)
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    return x @ turn, v @ turn


@pytest.mark.parametrize("e", ECCENTRICITIES)
@pytest.mark.parametrize("dt", [-1.7, 1e-6, 0.3, 30.0])
def test_steps_agree_with_an_independent_code(e, dt):
    x, v = states(e)
    found = np.concatenate(step(x, v, dt, 1.0), -1)
    for i in range(len(x)):
        exact = by_rebound(x[i], v[i], dt)
        # roundings of two codes, after up to five periods, where 1e-3 from the center
        # an error of position grows a thousandfold
        np.testing.assert_allclose(found[i], exact, rtol=0, atol=5e-11)


def by_rebound(x, v, dt):
    """Ten steps of WHFast, which is exact for two bodies within a period."""
    simulation = rebound.Simulation()
    simulation.integrator = "whfast"
    simulation.add(m=1.0)
    simulation.add(
        m=0.0, **dict(zip(("x", "y", "z", "vx", "vy", "vz"), (*x, *v), strict=True))
    )
    simulation.dt = dt / 10
    simulation.steps(10)
    p, c = simulation.particles[1], simulation.particles[0]
    return [p.x - c.x, p.y - c.y, p.z - c.z, p.vx - c.vx, p.vy - c.vy, p.vz - c.vz]


@pytest.mark.parametrize("e", [0.3, 0.9, 1.0, 1.5])
def test_steps_solve_the_differential_equation(e):
    x, v = states(e, count=1)

    def rate(t, y):
        return [*y[3:], *(-y[:3] / np.dot(y[:3], y[:3]) ** 1.5)]

    run = scipy.integrate.solve_ivp(
        rate, (0, 2.0), [*x[0], *v[0]], method="DOP853", rtol=1e-13, atol=1e-14
    )
    found = np.concatenate(step(x[0], v[0], 2.0, 1.0))
    # the integrator's: a hundred steps of 1e-13
    np.testing.assert_allclose(found, run.y[:, -1], rtol=0, atol=1e-10)


def test_fast_hyperbolic_orbit_is_right_to_machine_precision():
    x, _ = step([1.0, 0.0, 0.0], [0.0, 1e5, 0.0], 1.234567, 1.0)
    exact = [0.999987654429999595, 123456.699987655572, 0.0]
    np.testing.assert_allclose(x, exact, rtol=1e-15)


@pytest.mark.parametrize("dt", [-3.0, 0.0, 1e-7, 2.5, 1e6])
def test_motion_without_gravity_is_a_straight_line(dt):
    x, v = states(0.3)
    moved, kept = step(x, v, dt, 0.0)
    # x + v dt may be one rounding or two
    np.testing.assert_allclose(moved, x + v * dt, rtol=3e-16, atol=1e-16)
    np.testing.assert_array_equal(kept, v)
    np.testing.assert_array_equal(step(x, 0 * v, dt, 0.0)[0], x)


@pytest.mark.parametrize("e", ECCENTRICITIES)
def test_steps_compose_and_reverse(e):
    x, v = states(e)
    whole = step(x, v, 1.3, 1.0)
    parts = step(*step(x, v, 0.9, 1.0), 0.4, 1.0)
    back = step(*whole, -1.3, 1.0)
    for found, exact in ((parts, whole), (back, (x, v))):
        for a, b in zip(found, exact, strict=True):
            # a rounding in between, times how the orbit spreads: 1/(1 − e) at most
            scale = np.max(np.abs(b)) / max(1 - e, 1e-3) if e < 1 else np.max(np.abs(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * scale)


def test_whole_periods_return_to_the_initial_state():
    x, v = states(0.3)
    for count in (1, -1, 1000):
        moved = np.concatenate(step(x, v, 2 * np.pi * count, 1.0))
        # the energy, and the period with it, is known to a few roundings of the state
        np.testing.assert_allclose(
            moved, np.concatenate([x, v]), rtol=0, atol=1e-13 * abs(count)
        )


@functools.partial(jax.jit, static_argnums=0)
def transition(mode, x, v, dt):
    """∂(x, v)/∂(x, v), (member, 6, 6)."""

    def after(y):
        return jnp.concatenate(nbody.kepler_step(y[:3], y[3:], dt, 1.0))

    return jax.vmap(mode(after))(jnp.concatenate([x, v], -1))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("e", ECCENTRICITIES)
def test_the_derivative_is_symplectic(e, mode):
    x, v = states(e)
    matrix = np.asarray(transition(mode, x, v, 0.7))
    unit, zero = np.eye(3), np.zeros((3, 3))
    form = np.block([[zero, unit], [-unit, zero]])
    found = np.swapaxes(matrix, 1, 2) @ form @ matrix
    # relative to what cancels in the product
    size = np.maximum(np.max(np.abs(matrix), (1, 2)), 1) ** 2
    assert np.max(np.abs(found - form), (1, 2)) / size == pytest.approx(0, abs=1e-13)
    error = np.abs(np.linalg.det(matrix) - 1) / size
    assert error == pytest.approx(0, abs=1e-13)


def stumpff(z):
    """c₁, c₂, c₃ in long double."""
    z = np.asarray(z, np.longdouble)
    sums = []
    for n in (1, 2, 3):
        total = np.longdouble(0)
        for k in reversed(range(20)):
            total = np.longdouble(1) / math.factorial(2 * k + n) - z * total
        sums.append(total)
    y = np.sqrt(np.abs(z)) + (z == 0)
    c1 = np.where(z > 0, np.sin(y), np.sinh(y)) / y
    c2 = 2 * np.where(z > 0, np.sin(y / 2), np.sinh(y / 2)) ** 2 / y**2
    closed = [c1, c2, (1 - c1) / np.where(z == 0, 1, z)]
    return [np.where(np.abs(z) < 4, a, b) for a, b in zip(sums, closed, strict=True)]


def test_universal_kepler_equation_holds_to_a_few_ulp():
    random = np.random.default_rng(3)
    count = 1_000_000
    # e to 0.999 and through the parabola: β of either sign and of any size
    e = random.uniform(0, 0.999, count)
    away = random.choice([-1, 1], count) * 10.0 ** random.uniform(-16, -3, count)
    e = np.where(random.random(count) < 0.3, 1 + away, e)
    e = np.where(random.random(count) < 0.2, random.uniform(1, 5, count), e)
    f = random.uniform(-0.9, 0.9, count) * np.arccos(-1 / np.maximum(e, 1))
    p = 1 + e * np.cos(f)  # r = 1
    sigma = e * np.sin(f) / np.sqrt(p)
    beta = (1 - e) * (1 + e) / p
    half = np.pi / np.maximum(np.abs(beta), 1e-16) ** 1.5
    dt = random.uniform(-1, 1, count) * np.minimum(
        half, 10.0 ** random.uniform(-9, 3, count)
    )
    one = np.ones(count)
    s = np.asarray(jax.jit(universal_anomaly)(dt, one, sigma, one, beta))

    s, sigma, beta, dt = (np.asarray(a, np.longdouble) for a in (s, sigma, beta, dt))
    c1, c2, c3 = stumpff(beta * s * s)
    terms = [s * c1, sigma * s**2 * c2, s**3 * c3]
    residual = np.abs(sum(terms) - dt)
    # s itself is rounded, and so is every term of the equation
    radius = 1 - beta * s**2 * c2 + sigma * s * c1 + s**2 * c2
    rounding = EPS * (sum(np.abs(t) for t in terms) + np.abs(radius * s))
    assert np.max(residual / rounding) < 8


@pytest.mark.slow
def test_taylor_remainders_fall_with_slope_two_in_every_leaf():
    members = [states(e, count=1) for e in (0.0, 0.7, 1.0, 1.5)]
    x, v = (np.concatenate(a) for a in zip(*members, strict=True))
    # the first two over a period
    dt = jnp.array([9.0, 8.0, 1.0, -0.7])
    found = taylor_test(step, x, v, dt, jnp.ones(4))
    assert found.passed, found
    assert found.disagreement < 1e-10


def test_derivative_by_gm_is_right_at_zero_gm():
    """Of a straight line: −∫∫ x/r³, by quadrature."""
    x, v = np.array([1.0, 0.2, 0.0]), np.array([-0.3, 1.0, 0.5])
    found = jax.jacfwd(nbody.kepler_step, 3)(x, v, 2.0, 0.0)[0]

    def weighted(t, k):
        at = x + v * t
        return -(2.0 - t) * at[k] / np.dot(at, at) ** 1.5

    exact = [
        scipy.integrate.quad(weighted, 0, 2.0, (k,), epsabs=1e-13)[0] for k in range(3)
    ]
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def by_newton(x, v, dt, gm):
    """Bound orbits by plain trigonometry: ΔE held constant, then Newton steps from it.

    Independent of Stumpff's functions and of the rule; three steps are right to
    seventh order.
    """
    r, sigma = jnp.sqrt(jnp.sum(x * x)), jnp.sum(x * v)
    a = 1 / (2 / r - jnp.sum(v * v) / gm)
    n, near, fall = jnp.sqrt(gm / a**3), 1 - r / a, sigma / jnp.sqrt(gm * a)

    def newton(_, turn):
        f = turn - near * jnp.sin(turn) + fall * (1 - jnp.cos(turn)) - n * dt
        return turn - f / (1 - near * jnp.cos(turn) + fall * jnp.sin(turn))

    turn = jax.lax.stop_gradient(jax.lax.fori_loop(0, 30, newton, n * dt))
    for k in range(3):
        turn = newton(k, turn)
    sine, cosine = jnp.sin(turn), jnp.cos(turn)
    after = a * (1 - near * cosine + fall * sine)
    f, g = 1 - a / r * (1 - cosine), dt - (turn - sine) / n
    df, dg = -jnp.sqrt(gm * a) * sine / (r * after), 1 - a / after * (1 - cosine)
    return f * x + g * v, df * x + dg * v


def scanned(kepler_step):
    """Three steps, each as long as the one before says, by the first length and GM."""
    x, v = jnp.array([1.0, 0.2, -0.1]), jnp.array([0.1, 0.9, 0.3])

    def run(at):
        def body(h, _):
            after, speed = kepler_step(x, v, h, at[1])
            return 0.7 * h + 0.3 * after[0], jnp.sum(after**3 + speed)

        return jnp.sum(jax.lax.scan(body, at[0], None, length=3)[1])

    return run


NESTINGS = [
    *(
        pytest.param(a, b, id=name, marks=pytest.mark.slow)
        for a, b, name in (
            (jax.jacrev, jax.jacrev, "reverse over reverse"),
            (jax.jacfwd, jax.jacfwd, "forward over forward"),
            (jax.jacfwd, jax.jacrev, "forward over reverse"),
            (jax.jacrev, jax.jacfwd, "reverse over forward"),
        )
    ),
]


@pytest.fixture(scope="module")
def hessian():
    """Where it is taken, and its value by plain trigonometry."""
    at = jnp.array([0.8, 1.1])
    return at, jax.jit(jax.jacfwd(jax.jacfwd(scanned(by_newton))))(at)


@pytest.mark.parametrize(("outer", "inner"), NESTINGS)
def test_hessians_are_right_inside_a_scan(outer, inner, hessian):
    at, exact = hessian
    found = jax.jit(outer(inner(scanned(nbody.kepler_step))))(at)
    # roundings of second derivatives, measured 1e-14
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-11 * np.max(np.abs(exact)))


@pytest.mark.slow
def test_single_precision_is_kept_and_does_not_overflow():
    x, v = (np.float32(a) for a in states(0.3))
    dt = np.linspace(-1, 1, 8, dtype=np.float32)
    # lengths and GM of the Sun in SI units, whose squares overflow
    huge, gm = np.float32(1.5e11), np.float32(1.3e20)
    speed = np.sqrt(gm / huge)
    time = huge / speed
    moved, _ = nbody.kepler_step(huge * x, speed * v, time * dt, gm)
    assert moved.dtype == np.float32
    exact, _ = step(np.float64(x), np.float64(v), np.float64(dt), 1.0)
    np.testing.assert_allclose(moved / huge, exact, rtol=0, atol=1e-5)


def test_invalid_shapes_raise_and_impossible_states_are_nan():
    with pytest.raises(ValueError, match=r"v must have shape \(..., 3\), got \(2,\)"):
        nbody.kepler_step([1.0, 0.0, 0.0], [1.0, 0.0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"shapes must broadcast, got x \(2,\)"):
        nbody.kepler_step(np.ones((2, 3)), np.ones(3), np.ones(5), 1.0)
    assert np.isnan(step(np.zeros(3), np.ones(3), 1.0, 1.0)[0]).all()
    assert np.isnan(step(np.ones(3), np.ones(3), 1.0, -1.0)[0]).all()
