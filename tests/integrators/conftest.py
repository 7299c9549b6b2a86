"""Stiff problems with known answers, for every test of implicit solvers."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from diffsim.integrators import Kvaerno5
from diffsim.simulations import AbstractSimulation, Method


class Kaps(AbstractSimulation):
    r"""Kaps' problem, with a driven third entry so that a clock that is off shows.

    $\dot u = -2u + (v^2 - u)/\epsilon$, $\dot v = u - v - v^2$: $u = e^{-2t}$ and
    $v = e^{-t}$ for every $\epsilon$. $\dot w = -s\,w^3 - w + \cos t$ is nonlinear.

    J. R. Cash, *BIT* 34 (1994) 86, of P. Kaps and P. Rentrop.
    """

    epsilon: jax.Array
    start: jax.Array
    s: jax.Array
    split: bool = eqx.field(static=True, default=False)
    t0: float | jax.Array = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        def slow(t, y, args):
            u, v, w = y
            return jnp.stack([-2 * u, u - v - v**2, jnp.cos(t) - w])

        def fast(t, y, args):
            u, v, w = y
            stiff = (v**2 - u) / args.epsilon
            return jnp.stack([stiff, jnp.zeros_like(v), -args.s * w**3])

        if self.split:
            return diffrax.MultiTerm(diffrax.ODETerm(slow), diffrax.ODETerm(fast))
        return diffrax.ODETerm(lambda *a: slow(*a) + fast(*a))

    def default_method(self):
        return Method(Kvaerno5())


@pytest.fixture(scope="session")
def kaps():
    """Makes the problem: `kaps(epsilon, split=...)`."""

    def make(epsilon=1.0, *, split=False, start=(1.0, 1.0, 0.5), dtype=jnp.float64):
        epsilon, start, s = (jnp.asarray(x, dtype) for x in (epsilon, start, 2.0))
        return Kaps(epsilon, start, s, split)

    return make


class Diffusion(AbstractSimulation):
    r"""$u_t = (D(u)\,u_x)_x$ with $D = d + e u^2$ on (0, 1), zero at both ends."""

    d: jax.Array
    e: jax.Array
    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        def rate(t, u, args):
            dx = 1 / (u.size + 1)
            u = jnp.pad(u, 1)
            middle = (u[1:] + u[:-1]) / 2
            flux = (args.d + args.e * middle**2) * jnp.diff(u) / dx
            return jnp.diff(flux) / dx

        return diffrax.ODETerm(rate)

    def default_method(self):
        return Method(Kvaerno5())


@pytest.fixture(scope="session")
def diffusion():
    """Makes nonlinear diffusion on `n` points."""

    def make(n):
        x = jnp.arange(1, n + 1) / (n + 1)
        start = jnp.sin(jnp.pi * x) + 0.3 * jnp.sin(3 * jnp.pi * x)
        return Diffusion(jnp.asarray(0.1), jnp.asarray(0.5), start)

    return make
