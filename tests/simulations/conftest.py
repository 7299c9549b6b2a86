"""A driven oscillator, which has a closed form, for every test of `simulate`."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from diffsim.simulations import AbstractSimulation, Method, Separable


_FREQUENCY = 0.7


class Driven(AbstractSimulation):
    """x'' = -k x + a cos(0.7 t): time-dependent, so that a clock that is off shows."""

    k: jax.Array
    a: jax.Array
    start: jax.Array
    t0: float | jax.Array = 0.0

    def initial_state(self):
        return self.start[0], self.start[1]

    def terms(self):
        return Separable(
            lambda t, v, args: v,
            lambda t, x, args: args.a * jnp.cos(_FREQUENCY * t) - args.k * x,
        )

    def default_method(self):
        return Method(diffrax.Tsit5())

    def observe(self, t, y):
        return jnp.stack(y)

    @eqx.filter_jit
    def exact(self, t):
        """Observed state at `t` in closed form."""
        w, root = _FREQUENCY, jnp.sqrt(self.k)
        forced = self.a / (self.k - w**2)
        x0 = self.start[0] - forced * jnp.cos(w * self.t0)
        v0 = self.start[1] + forced * w * jnp.sin(w * self.t0)
        c, s = jnp.cos(root * (t - self.t0)), jnp.sin(root * (t - self.t0))
        x = x0 * c + v0 / root * s + forced * jnp.cos(w * t)
        v = v0 * c - x0 * root * s - forced * w * jnp.sin(w * t)
        return jnp.stack([x, v])


@pytest.fixture(scope="session")
def driven():
    """Makes the oscillator: `driven(t0=..., dtype=...)`."""

    def make(*, t0=0.0, dtype=jnp.float64, k=2.0, a=0.3, start=(1.0, -0.2)):
        k, a, start = (jnp.asarray(x, dtype) for x in (k, a, start))
        return Driven(k, a, start, t0)

    return make
