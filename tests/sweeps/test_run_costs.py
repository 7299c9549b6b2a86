"""Runs that take about as many steps lie side by side, whatever their order."""

import jax
import jax.numpy as jnp
import numpy as np

from diffsim.sweeps import _chunked_run, sweep
from diffsim.sweeps._run_costs import RunCosts, counted
from diffsim.sweeps._swept_parameters import Rows


def _halvings(x):
    """How often 2^n is halved until it is 1, inside a call as users' functions are."""

    @jax.jit
    def inner(x):
        return jax.lax.while_loop(lambda y: y > 1.0, lambda y: y / 2, x)

    return inner(x)


def test_rounds_of_loops_are_counted_inside_of_calls():
    closed = jax.make_jaxpr(lambda x: (_halvings(x), _halvings(2 * x)))(1.0)
    (first, second), count = counted(closed)(jnp.asarray(16.0))
    assert (float(first), float(second), int(count)) == (1.0, 1.0, 4 + 5)


def test_rounds_of_lanes_are_those_of_each_lane():
    closed = jax.make_jaxpr(_halvings)(1.0)
    _, counts = jax.vmap(counted(closed))(2.0 ** np.arange(5))
    assert counts.tolist() == [0, 1, 2, 3, 4]


def test_runs_are_sorted_by_what_their_neighbours_took():
    rng = np.random.default_rng(3)
    place = rng.permutation(np.geomspace(1e-9, 1.0, 400))
    costs = RunCosts(Rows(place[:, None], None))
    known = np.arange(40)
    np.testing.assert_array_equal(costs.sorted(known), known)  # of none anything known
    costs.learn(known, 1000 * np.log10(place[known]))
    order = costs.sorted(np.arange(40, 400))
    assert sorted(order.tolist()) == list(range(40, 400))
    # Spearman's rank correlation of the order with the true one
    ranks = np.argsort(np.argsort(-place[order]))
    assert np.corrcoef(ranks, np.arange(360))[0, 1] > 0.99


def test_lanes_wait_less_where_runs_are_sorted(monkeypatch):
    """Of lanes that go on to the last one, rounds are the sum of the largest."""
    waited = []
    learn = _chunked_run.RunCosts.learn

    def noted(self, runs, costs):
        waited.append(costs)
        learn(self, runs, costs)

    monkeypatch.setattr(_chunked_run.RunCosts, "learn", noted)
    rng = np.random.default_rng(0)
    exponents = rng.permutation(np.linspace(2, 40, 640)).round()
    over = {"[0]": 2**exponents}
    found = sweep(lambda m: _halvings(m[0]) * m[0], jnp.ones(1), over, batch=16)
    np.testing.assert_array_equal(found.outputs, over["[0]"])
    costs = np.concatenate(waited)
    assert sorted(costs.tolist()) == sorted(exponents.tolist())
    tiles = costs.reshape(-1, 16)
    assert np.sum(tiles.max(1)) * 16 < 1.3 * np.sum(costs)  # 1.9 in the order given
