"""Memory of derivatives, read from the compiled program."""

import jax
import jax.numpy as jnp
import pytest

from diffsim.integrators import Leapfrog
from diffsim.simulations import (
    AbstractSimulation,
    Checkpointed,
    Method,
    Reversible,
    Separable,
    simulate,
)


_WIDTH = 512


class _Wide(AbstractSimulation):
    """Enough pendulums for the states to be most of what is kept."""

    k: jax.Array
    t0: float = 0.0

    def initial_state(self):
        x = jnp.linspace(0.1, 1.0, _WIDTH, dtype=self.k.dtype)
        return x, 0 * x

    def terms(self):
        return Separable(lambda t, v, args: v, lambda t, x, args: -args.k * jnp.sin(x))

    def default_method(self):
        return Method(Leapfrog(), 0.1)


def kept_states(adjoint, steps):
    """Temporary memory of a gradient of so many steps, in units of one state."""
    method = Method(Leapfrog(), 0.1, adjoint=adjoint)

    def loss(k):
        x, v = simulate(_Wide(k), 0.1 * steps, method).states
        return jnp.sum(x**2 + v**2)

    compiled = jax.jit(jax.grad(loss)).lower(jnp.asarray(1.0)).compile()
    return compiled.memory_analysis().temp_size_in_bytes / (2 * 8 * _WIDTH)


def test_default_adjoint_stores_every_step():
    few, many = kept_states(None, 100), kept_states(None, 400)
    assert many - few == pytest.approx(300, rel=0.2)


def test_memory_of_the_reversible_adjoint_does_not_depend_on_the_steps():
    few, many = kept_states(Reversible(), 100), kept_states(Reversible(), 10_000)
    assert many - few < 1
    assert many < 20


def test_checkpointed_memory_grows_as_the_root_of_the_steps():
    few, many = kept_states(Checkpointed(), 100), kept_states(Checkpointed(), 10_000)
    # Between segments and inside one 3 sqrt(n) states are kept, 30 and 300.
    assert few < 40 and many < 350


def test_more_segments_store_fewer_steps_inside_each():
    # 400 steps: 4 segments of 100 steps, or 20 of 20
    few, many = kept_states(Checkpointed(4), 400), kept_states(Checkpointed(20), 400)
    assert few > 1.5 * many
