"""Manufactured flows between walls of every kind; the lid-driven cavity."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import pde


pytestmark = pytest.mark.optimized


NU = 0.05


def channel(t, x, y):
    """ψ, of which ∂u/∂x, v and ∂v/∂x vanish where x = 1."""
    moved = (1 - x) ** 3 * jnp.sin(jnp.pi * y) ** 2 / 2
    return (1 + jnp.sin(2 * t)) * (3 * y**2 - 2 * y**3 + moved)


def cavity(t, x, y):
    """ψ, at rest at all walls but y = 1."""
    return (1 + jnp.sin(2 * t)) * jnp.sin(jnp.pi * x) ** 2 * y**2 * (y - 1)


def weight(t, x, y):
    """A pressure that vanishes where x = 1."""
    return (1 - x) * jnp.cos(y + t)


def velocity(stream, p, t, x, y):
    return p * jnp.stack([jax.grad(stream, 2)(t, x, y), -jax.grad(stream, 1)(t, x, y)])


def force(stream, p, t, x, y):
    """What keeps it going."""

    def u(t, x, y):
        return velocity(stream, p, t, x, y)

    change = jax.jacfwd(u, 0)(t, x, y)
    slopes = jnp.stack([jax.jacfwd(u, i)(t, x, y) for i in (1, 2)])
    curved = [jax.jacfwd(jax.jacfwd(u, i), i)(t, x, y) for i in (1, 2)]
    push = jnp.stack([jax.grad(weight, i)(t, x, y) for i in (1, 2)])
    carried = jnp.sum(u(t, x, y)[:, None] * slopes, axis=0)
    return change + carried + push - NU * sum(curved)


def on_grid(function, stream, p):
    """A function of a place as one of many."""

    def of(t, x):
        flat = x.reshape(2, -1)
        at = jax.vmap(lambda a, b: function(stream, p, t, a, b), out_axes=1)
        return at(*flat).reshape(x.shape)

    return of


def error(stream, p, n):
    """On the faces, at the end."""
    u = on_grid(velocity, stream, p)
    if stream is channel:
        walls = ((pde.Inflow(u), pde.Outflow()), pde.NoSlip())
    else:
        walls = (pde.NoSlip(), (pde.NoSlip(), pde.NoSlip(u)))
    grid = pde.Grid((n, n))
    flow = pde.IncompressibleFlow(
        NU,
        grid,
        walls,
        forcing=on_grid(force, stream, p),
        initial=lambda x: u(jnp.zeros(()), x),
    )
    method = ds.Method(diffrax.Bosh3(), 0.004)
    found = ds.simulate(flow, 0.2, method, observe=flow.velocities, throw=False).states
    t = jnp.asarray(0.2)
    return [a - u(t, grid.faces(i))[i] for i, a in enumerate(found)]


def norms(stream, n):
    both = jax.jit(lambda p: jax.jvp(lambda p: error(stream, p, n), (p,), (1.0,)))(1.0)
    return [
        f(np.concatenate([a.ravel() for a in e])) for e in both for f in (_rms, _most)
    ]


def _rms(a):
    return np.sqrt(np.mean(a**2))


def _most(a):
    return np.max(np.abs(a))


@pytest.mark.slow
@pytest.mark.parametrize("stream", [channel, cavity])
def test_manufactured_flows_and_derivatives_have_order_two(stream):
    orders = np.log2(np.divide(norms(stream, 16), norms(stream, 32)))
    # The largest error sits in a corner and is the last to fall in place.
    np.testing.assert_allclose(orders[::2], 2, atol=0.1)
    np.testing.assert_allclose(orders[1::2], 2, atol=0.25)


def extreme(line, sign):
    """Of values between cells along a unit length, on the parabola through three."""
    line = sign * np.asarray(line)
    k = np.argmax(line)
    low, top, high = line[k - 1 : k + 2]
    return sign * (top + (high - low) ** 2 / (8 * (2 * top - low - high)))


@pytest.mark.slow
def test_lid_driven_cavity_matches_published_values():
    """Re 100, Marchi et al. 2009 (10.1590/S1678-58782009000300004)."""
    n = 128
    lid = pde.NoSlip((1.0, 0.0))
    walls = (pde.NoSlip(), (pde.NoSlip(), lid))
    flow = pde.IncompressibleFlow(0.01, pde.Grid((n, n)), walls)
    # The slowest motion decays by 0.5 a unit of time.
    method = ds.Method(
        diffrax.Bosh3(),
        controller=diffrax.PIDController(rtol=1e-4, atol=1e-4),
        max_steps=100_000,
    )
    u, v = ds.simulate(flow, 20.0, method, observe=flow.velocities).states
    found = [
        extreme(u[n // 2], -1),
        extreme(v[:, n // 2], 1),
        extreme(v[:, n // 2], -1),
    ]
    np.testing.assert_allclose(found, [-0.2140417, 0.1795728, -0.2538030], rtol=5e-3)
