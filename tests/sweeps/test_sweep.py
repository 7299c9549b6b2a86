"""A sweep equals a loop over its runs; a failed run leaves the others unchanged."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import pytest
from rows import first_plain

from diffsim import sweeps
from diffsim._results import RESULTS
from diffsim.integrators import Leapfrog
from diffsim.simulations import AbstractSimulation, Method, Separable, simulate
from diffsim.sweeps import sweep


class _Oscillator(AbstractSimulation):
    """x'' = -rate^2 x, a few of them side by side; x = start cos(rate t)."""

    rate: jax.Array
    start: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return self.start, jnp.zeros_like(self.start)

    def terms(self):
        return Separable(lambda t, v, a: v, lambda t, x, a: -(a.rate**2) * x)

    def default_method(self):
        return Method(Leapfrog(), step=0.05)


_TIMES = np.linspace(0.0, 3.0, 7)
_ADAPTIVE = Method(diffrax.Tsit5())
_RATES = np.linspace(0.5, 1.5, 11)


def _model():
    return _Oscillator(jnp.asarray(1.0), jnp.asarray([1.0, 2.0]))


def _positions(model):
    return simulate(model, _TIMES).states[0]


def _trajectory(model):
    return simulate(model, _TIMES)


def _adaptive(model):
    return simulate(model, _TIMES, _ADAPTIVE)


def _slope(model):
    """A gradient and a value, through the run."""
    return eqx.filter_value_and_grad(lambda m: jnp.sum(_positions(m) ** 2))(model)


def _loop(predict, rates):
    one = jax.jit(lambda rate: predict(_Oscillator(rate, _model().start)))
    runs = [one(rate) for rate in rates]
    return jax.tree.map(lambda *x: np.stack(x), *runs)


def _assert_same(found, expected):
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        # law 5 of the library: vmap = loop to 1e-12, values and gradients
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


# 11 runs: tiles of 4 leave a place empty, of 1 and 11 none
@pytest.mark.gpu
@pytest.mark.parametrize("batch", first_plain(["auto", 4, None, 1], 2))
def test_sweep_equals_loop_in_values_and_gradients(batch):
    found = sweep(_slope, _model(), {"rate": _RATES}, batch=batch)
    assert not found.failures
    _assert_same(found.outputs, _loop(_slope, _RATES))


@pytest.mark.gpu
def test_adaptive_runs_equal_their_loop():
    found = sweep(_adaptive, _model(), {"rate": _RATES[:4]}, batch=2)
    alone = [
        simulate(_Oscillator(jnp.asarray(r), _model().start), _TIMES, _ADAPTIVE)
        for r in _RATES[:4]
    ]
    _assert_same(found.outputs.states[0], np.stack([x.states[0] for x in alone]))
    np.testing.assert_array_equal(
        found.outputs.stats["num_steps"], [x.stats["num_steps"] for x in alone]
    )


def test_outputs_converge_to_the_closed_form():
    found = sweep(_positions, _model(), {"rate": _RATES}).outputs
    exact = np.cos(_RATES[:, None] * _TIMES)[..., None] * [1.0, 2.0]
    # leapfrog's phase error: rate^3 t h^2/24 = 1e-3 at the fastest, amplitude 2
    assert found.shape == (11, 7, 2)
    assert np.max(np.abs(found - exact)) < 2.5e-3


@pytest.mark.parametrize("batch", first_plain([None, 1, "auto", 4], 2))
def test_failed_run_leaves_the_others_unchanged(batch):
    rates = _RATES.copy()
    rates[3] = np.nan
    found = sweep(_trajectory, _model(), {"rate": rates}, batch=batch)
    assert np.flatnonzero(~found.successful).tolist() == [3]
    good = np.delete(np.arange(11), 3)
    expected = sweep(_trajectory, _model(), {"rate": _RATES}, batch=batch).outputs
    _assert_same(found.outputs.states[0][good], expected.states[0][good])
    assert np.all(np.isnan(found.outputs.states[0][3]))


def test_failures_are_listed_by_parameter_value_with_what_to_try():
    rates = [1.0, np.inf, 2.0, np.nan]
    found = sweep(_trajectory, _model(), {"rate": rates})
    assert [failure.run for failure in found.failures] == [1, 3]
    assert found.failures[0].parameters["rate"] == np.inf
    assert found.failures[0].message == RESULTS[RESULTS.non_finite]
    summary = str(found)
    assert "4 runs over rate: 2 successful, 2 failed" in summary
    assert "Try a shorter step" in summary
    assert "run 1: rate = inf" in summary


def test_solutions_of_other_libraries_tell_how_the_run_went():
    def decay(rate):
        term = diffrax.ODETerm(lambda t, y, rate: -rate * y)
        controller = diffrax.PIDController(1e-3, 1e-3)
        return diffrax.diffeqsolve(
            term,
            diffrax.Heun(),
            0.0,
            1.0,
            None,
            jnp.ones(2),
            rate,
            max_steps=50,
            throw=False,
            stepsize_controller=controller,
        )

    def root(square):
        newton = optimistix.Newton(1e-8, 1e-8)
        step = lambda y, square: y**2 - square  # noqa: E731
        return optimistix.root_find(
            step, newton, 1.0, square, max_steps=20, throw=False
        )

    found = sweep(decay, jnp.array(1.0), {"value": [1e-3, 1.0, 1e4]})
    (failure,) = found.failures
    assert (failure.run, failure.message[:17]) == (2, "The maximum numbe")
    found = sweep(root, jnp.array(1.0), {"value": [4.0, -1.0]})
    assert [failure.run for failure in found.failures] == [1]
    np.testing.assert_allclose(found.outputs.value[0], 2.0)


def test_solution_that_an_event_ended_is_no_failure():
    def fall(height):
        """From rest at this height; the ground ends it."""
        event = diffrax.Event(lambda t, y, args, **_: y[0] < 0)
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -1.0])),
            diffrax.Heun(),
            0.0,
            3.0,
            0.01,
            jnp.stack([height, 0.0]),
            event=event,
            throw=False,
        )

    found = sweep(fall, jnp.array(1.0), {"value": [0.5, 2.0, 100.0]})
    assert found.successful.all()
    ends = np.minimum(np.sqrt(2 * np.array([0.5, 2.0, 100.0])), 3.0)
    np.testing.assert_allclose(found.outputs.ts[:, 0], ends, atol=0.011)


@pytest.mark.parametrize("batch", ["auto", 1])
def test_errors_in_a_run_say_how_it_fails_alone(batch):
    def positive(x):
        return eqx.error_if(x, x < 0, "a length is negative")

    said = "ends the sweep: a length is negative. Let such a run fail by its outcome"
    with pytest.raises(RuntimeError, match=said):
        sweep(positive, jnp.array(1.0), {"value": [1.0, -1.0]}, batch=batch)


def test_nonfinite_output_fails_the_run():
    found = sweep(jnp.log, jnp.asarray([1.0]), {"[0]": [1.0, -1.0, 2.0]})
    assert [failure.run for failure in found.failures] == [1]
    assert found.failures[0].message == RESULTS[RESULTS.prediction_not_finite]


def test_failed_simulation_inside_predict_is_found_without_a_trajectory():
    found = sweep(_positions, _model(), {"rate": [1.0, np.nan]})
    assert found.successful.tolist() == [True, False]


def test_long_lists_of_failures_are_truncated():
    summary = str(sweep(jnp.log, jnp.ones(1), {"[0]": -np.arange(1.0, 15.0)}))
    assert "14 failed." in summary
    assert "and 4 more" in summary
    assert summary.count("\n  run ") == 10


def test_sweep_over_a_grid_covers_every_combination():
    over = sweeps.grid({"rate": [0.5, 1.0], "start[1]": [1.0, 2.0, 3.0]})
    found = sweep(_positions, _model(), over)
    first = found.outputs.reshape(2, 3, 7, 2)[:, :, 0, :]
    np.testing.assert_array_equal(first[..., 1], [[1, 2, 3], [1, 2, 3]])
    np.testing.assert_array_equal(first[..., 0], np.ones((2, 3)))
    assert len(found) == 6


def test_path_to_several_leaves_takes_flattened_rows():
    rows = np.asarray([[1.0, 3.0, 4.0], [2.0, 5.0, 6.0]])
    model = {"a": jnp.zeros(()), "b": {"c": jnp.zeros(2), "n": 3}}
    found = sweep(lambda m: (m["a"], m["b"]["c"]), model, {"*": rows})
    np.testing.assert_array_equal(found.outputs[0], rows[:, 0])
    np.testing.assert_array_equal(found.outputs[1], rows[:, 1:])


def test_swept_values_take_the_dtype_of_their_leaf():
    model = {"a": jnp.ones((), jnp.float32), "b": jnp.ones(())}
    over = {"a": np.arange(3), "b": np.arange(3.0)}
    found = sweep(lambda m: (m["a"] * 2, m["b"]), model, over).outputs
    assert found[0].dtype == np.float32
    assert found[1].dtype == np.float64


def test_outputs_are_any_pytree_with_a_leading_run_axis():
    def predict(x):
        return {"both": (x, x > 0), "one": 1, "none": None}

    found = sweep(predict, jnp.ones(2), {"*": np.eye(2)}).outputs
    assert found["both"][1].tolist() == [[True, False], [False, True]]
    assert found["one"].tolist() == [1, 1]
    assert found["none"] is None


def test_second_sweep_compiles_nothing(compilations):
    sweep(_positions, _model(), {"rate": _RATES}, batch=4)
    before = compilations()
    other = _Oscillator(jnp.asarray(1.0), jnp.asarray([2.0, 3.0]))
    again = sweep(_positions, other, {"rate": 2 * _RATES}, batch=4)
    assert compilations() == before
    assert again.outputs[0, 0].tolist() == [2.0, 3.0]


def _sum_and_square(x):
    return jnp.sum(x), x**2


def test_sweep_of_one_run_has_a_summary():
    found = sweep(_sum_and_square, jnp.ones(2), {"[0]": [1.0]})
    assert str(found) == "sweep of 1 run over [0]: 1 successful, 0 failed"


def test_sweep_over_the_epoch_runs_with_max_steps():
    method = Method(Leapfrog(), step=0.5, max_steps=4)

    def end(model):
        return simulate(model, 1.0, method).states

    assert sweep(end, _model(), {"t0": [0.25, 0.5]}).successful.all()


def test_batch_may_be_a_numpy_integer():
    found = sweep(_sum_and_square, jnp.ones(2), {"[0]": _RATES}, batch=np.int64(2))
    assert found.outputs[0].shape == (11,)
