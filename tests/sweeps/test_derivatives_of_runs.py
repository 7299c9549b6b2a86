"""Derivatives of runs are those of closed forms, by either mode; NaN where a run is."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import _tuning, integrators, problems
from diffsim.sweeps import _run_derivative, sweep


_T = np.linspace(0.0, 2.0, 5)
_MODEL = {"a": jnp.array(1.0), "b": jnp.array([0.5, 0.2]), "n": 3}
_OVER = {
    "b": np.array([[0.5, 0.2], [1.0, 0.1], [-0.3, 0.7]]),
    "a": np.array([1.0, 2.0, -1.0]),
}
_BY_TIME, _BY_BOTH = np.stack([_T, _T**2]), np.array([1.0, 2.0])


def _curve(model):
    """a exp(b0 t + b1 t²)"""
    b = model["b"]
    return model["a"] * jnp.exp(b[0] * _T + b[1] * _T**2)


def _exact():
    """Outputs and their derivatives by b and a, by hand."""
    exponent = np.exp(_OVER["b"] @ _BY_TIME)
    outputs = _OVER["a"][:, None] * exponent
    return outputs, outputs[..., None] * _BY_TIME.T, exponent


@pytest.mark.parametrize("batch", ["auto", None, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_jacobian_is_that_of_the_closed_form(batch, reverse, monkeypatch):
    monkeypatch.setattr(_tuning, "RUNS_OF_REVERSE_MODE", 0 if reverse else 4)
    found = sweep(_curve, _MODEL, _OVER, batch=batch, derivative="jacobian")
    outputs, by_b, by_a = _exact()
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-13)
    np.testing.assert_allclose(found.derivative["b"], by_b, rtol=1e-12)
    np.testing.assert_allclose(found.derivative["a"], by_a, rtol=1e-12)


def test_derivative_that_is_not_finite_fails_the_run():
    def predict(model):
        return jnp.linalg.norm(model["b"])

    over = {"b": np.array([[3.0, 4.0], [0.0, 0.0]])}
    found = sweep(predict, _MODEL, over, derivative="gradient")
    np.testing.assert_array_equal(found.outputs, [5.0, 0.0])
    np.testing.assert_allclose(found.derivative["b"][0], [0.6, 0.8])
    (failure,) = found.failures
    assert failure.run == 1
    assert failure.message == ds.RESULTS[ds.RESULTS.derivative_not_finite]


@jax.custom_vjp
def _reverse_only(x):
    return x**2


_reverse_only.defvjp(lambda x: (x**2, x), lambda x, bar: (2 * x * bar,))


def _forward_only(x):
    return jax.lax.while_loop(lambda y: jnp.abs(y) < 100, lambda y: 2 * y, x)


def test_functions_of_one_mode_are_differentiated_by_that():
    a = np.array([3.0, 5.0, 200.0])
    found = sweep(
        lambda m: _reverse_only(m["a"]), _MODEL, {"a": a}, derivative="gradient"
    )
    np.testing.assert_array_equal(found.derivative["a"], 2 * a)
    many = {"a": a, "w": np.ones((3, 8))}
    found = sweep(
        lambda m: _forward_only(m["a"]) * m["w"].sum(),
        {"a": jnp.array(1.0), "w": jnp.ones(8)},
        many,
        derivative="gradient",
    )
    np.testing.assert_array_equal(found.derivative["a"], [8 * 64, 8 * 32, 8])
    with pytest.raises(ValueError, match=r"predict.*mode only.*lacks the other one"):
        sweep(
            lambda m: _reverse_only(m["a"]) + _forward_only(m["a"]),
            _MODEL,
            {"a": a},
            derivative="gradient",
        )


def test_gradient_has_the_shape_of_what_its_path_names():
    found = sweep(
        lambda m: jnp.sum(_curve(m) ** 2), _MODEL, _OVER, derivative="gradient"
    )
    outputs, by_b, by_a = _exact()
    np.testing.assert_allclose(
        found.derivative["b"], 2 * np.sum(outputs[..., None] * by_b, 1), rtol=1e-12
    )
    np.testing.assert_allclose(
        found.derivative["a"], 2 * np.sum(outputs * by_a, 1), rtol=1e-12
    )


def test_fisher_information_is_the_gram_matrix_of_the_jacobian():
    found = sweep(_curve, _MODEL, _OVER, derivative="fisher")
    _, by_b, by_a = _exact()
    jacobian = np.concatenate([by_b, by_a[..., None]], -1)
    expected = np.swapaxes(jacobian, 1, 2) @ jacobian
    np.testing.assert_allclose(found.derivative, expected, rtol=1e-12)


@pytest.mark.gpu
def test_fisher_information_of_a_run_is_that_of_fisher():
    found = sweep(_curve, _MODEL, _OVER, derivative="fisher")
    model = {"a": 2.0, "b": jnp.array([1.0, 0.1]), "n": 3}
    alone = ds.fisher(_curve, model, noise=ds.inference.Gaussian(1.0), free=["b", "a"])
    np.testing.assert_allclose(found.derivative[1], alone.matrix, rtol=1e-12)


def test_cheaper_mode_is_the_one_that_is_compiled():
    def modes(predict, model, over):
        seen = []

        def forward(*args, **options):
            seen.append("forward")
            return jax.jacfwd(*args, **options)

        def reverse(*args, **options):
            seen.append("reverse")
            return jax.jacrev(*args, **options)

        shown = type("jax", (), {**vars(jax), "jacfwd": forward, "jacrev": reverse})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_run_derivative, "jax", shown)
            sweep(predict, model, over, derivative="jacobian")
        return set(seen)

    wide = {"x": jnp.ones(40)}
    many = {"x": np.ones((2, 40))}
    assert modes(lambda m: jnp.sum(m["x"] ** 2), wide, many) == {"reverse"}
    assert modes(lambda m: m["x"] ** 2, wide, many) == {"forward"}


def test_derivatives_of_trajectories_are_those_of_their_states():
    system, path = problems.outer_solar_system(), "bodies.masses[Jupiter]"
    method = ds.Method(integrators.Leapfrog(), step=20.0)

    def trajectory(system):
        return ds.simulate(system, np.array([0.0, 200.0]), method)

    over = {path: np.array([9e-4, 1e-3])}
    found = sweep(trajectory, system, over, derivative="jacobian", batch=1)

    def positions(mass):
        where = lambda s: s.bodies.masses  # noqa: E731
        masses = system.bodies.masses.at[1].set(mass)
        return trajectory(eqx.tree_at(where, system, masses)).states.positions

    slopes = found.derivative[path].positions
    np.testing.assert_allclose(slopes[0], jax.jacfwd(positions)(9e-4), rtol=1e-10)
    dataset = found.to_xarray()
    assert dataset.jacobian_positions.dims[:3] == ("run", "parameter", "time")
    np.testing.assert_array_equal(dataset.jacobian_positions[:, 0], slopes)


def test_derivative_of_a_failed_run_is_nan_and_of_others_is_not():
    def end(problem):
        method = ds.Method(diffrax.Dopri5(), max_steps=400)
        return ds.simulate(problem, 1.0, method).states[0]

    over = {"epsilon": np.array([0.5, 1e-5, 0.1])}
    found = sweep(end, problems.kaps(), over, derivative="gradient")
    assert np.isnan(found.derivative["epsilon"]).tolist() == [False, True, False]


def test_derivatives_are_variables_of_the_dataset():
    pytest.importorskip("xarray")
    found = sweep(_curve, _MODEL, _OVER, derivative="jacobian").to_xarray()
    assert found.jacobian_output.dims == ("run", "parameter", "output_axis_0")
    assert found.parameter.values.tolist() == ["b[0]", "b[1]", "a"]
    np.testing.assert_allclose(found.jacobian_output.sel(parameter="a"), _exact()[2])
    slopes = sweep(lambda m: m["a"] ** 2, _MODEL, _OVER, derivative="gradient")
    np.testing.assert_allclose(
        slopes.to_xarray().gradient.sel(parameter="a"), 2 * _OVER["a"]
    )


def test_gradients_are_columns_of_the_table():
    pytest.importorskip("pandas")
    over = {"a": np.array([1.0, 2.0])}
    found = sweep(lambda m: m["a"] ** 2, _MODEL, over, derivative="gradient")
    table = found.to_dataframe()
    np.testing.assert_array_equal(table["gradient[a]"], [2.0, 4.0])
