"""Small states are packed into one array inside a loop of explicit steps."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from rows import first_plain

from diffsim.simulations import AbstractSimulation, Method, simulate


_METHOD = Method(diffrax.Dopri5(), step=0.1)
_TIMES = np.array([0.3, 0.97])

#: Leaves that differ in the first axis, in all, and in their number of axes.
_STATES = {
    "rows": (jnp.ones((3, 4)), jnp.full((2, 4), 0.5)),
    "mixed": [jnp.ones((2, 3)), jnp.asarray(0.5), jnp.arange(4.0)],
    "empty": (jnp.ones((0, 2)), jnp.ones((3, 2))),
    "scalars": {"x": jnp.asarray(1.0), "v": jnp.asarray(0.5)},
    "one array": jnp.ones((2, 3)),
}


class Coupled(AbstractSimulation):
    """Every number drives itself, and the mean of all drives every number."""

    start: Any
    rate: Array
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return diffrax.ODETerm(self.field)

    def field(self, t, y, args):
        mean = sum(jnp.sum(a) for a in jax.tree.leaves(y)) / 7
        return jax.tree.map(lambda a: -self.rate * a + jnp.sin(mean + t), y)

    def default_method(self):
        return _METHOD


def _coupled(start, rate=0.7):
    return Coupled(start=start, rate=jnp.asarray(rate))


def _loop_carries(function, *inputs):
    """Shapes of what goes into a turn of every loop in the jaxpr of a function."""
    found = []

    def look(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "scan":
                found.append([v.aval.shape for v in eqn.params["jaxpr"].jaxpr.invars])
            for inner in (getattr(p, "jaxpr", p) for p in eqn.params.values()):
                if hasattr(inner, "eqns"):
                    look(inner)

    look(jax.make_jaxpr(function)(*inputs).jaxpr)
    return found


@pytest.mark.parametrize("name", first_plain(_STATES, 2))
def test_packed_steps_are_those_of_diffrax(name):
    state = _STATES[name]
    simulation = _coupled(state)
    # Not beyond the last grid point, between which Diffrax interpolates.
    found = simulate(simulation, [0.3, 0.9], _METHOD).states
    theirs = diffrax.diffeqsolve(
        simulation.terms(),
        diffrax.Dopri5(),
        0.0,
        0.9,
        0.1,
        state,
        simulation,
        saveat=diffrax.SaveAt(ts=jnp.array([0.3, 0.9])),
    ).ys
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", first_plain(["mixed", "rows", "scalars"]))
def test_forward_and_reverse_derivatives_of_packed_steps_agree(name):
    def run(rate):
        simulation = _coupled(_STATES[name], rate)
        leaves = jax.tree.leaves(simulate(simulation, _TIMES, _METHOD).states)
        return jnp.concatenate([a.ravel() for a in leaves])

    both = jax.jit(lambda rate: (jax.jacfwd(run)(rate), jax.jacrev(run)(rate)))
    forward, reverse = both(0.7)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-14)


def test_fixed_step_loop_carries_one_array():
    """Read from the jaxpr: no leaf of its own is carried from step to step."""

    def run(rate):
        return simulate(_coupled(_STATES["rows"], rate), [0.9], _METHOD).states

    shapes = [s for carry in _loop_carries(run, jnp.asarray(0.7)) for s in carry]
    assert (5, 4) in shapes
    assert not {(3, 4), (2, 4)} & set(shapes)


def test_states_of_one_array_are_not_packed():
    def run(rate):
        return simulate(_coupled(jnp.ones((2, 3)), rate), [0.9], _METHOD).states

    shapes = [s for carry in _loop_carries(run, jnp.asarray(0.7)) for s in carry]
    assert (2, 3) in shapes


def test_off_grid_steps_have_the_precision_of_the_state():
    state = jax.tree.map(lambda a: a.astype(jnp.float32), _STATES["mixed"])
    simulation = eqx.tree_at(
        lambda s: s.rate, _coupled(state), jnp.asarray(0.7, "float32")
    )
    found = simulate(simulation, _TIMES, _METHOD).states
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype("float32")}
