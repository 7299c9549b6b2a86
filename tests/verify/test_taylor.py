"""The Taylor test passes right derivatives and fails wrong ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.verify import taylor_test


def _pendulum(leaves):
    return {
        "angle": jnp.sin(leaves["rate"] * leaves["time"][:, None]) * leaves["size"],
        "energy": jnp.sum(leaves["size"] ** 2) * leaves["rate"] * 1e9,
    }


@pytest.fixture(scope="module")
def pendulum():
    leaves = {
        "rate": jnp.asarray(1.3),
        "time": jnp.linspace(0.1, 2, 5),
        "size": jnp.asarray([0.2, -3.0, 0.0]),
        "count": jnp.arange(3),
    }
    return taylor_test(_pendulum, leaves)


def _sine_with_derivative(factor):
    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda x, dx: (jnp.sin(x[0]), factor * jnp.cos(x[0]) * dx[0]))
    return sine


def test_right_derivatives_have_slope_two_in_both_modes(pendulum):
    assert pendulum.passed
    assert set(pendulum.slopes) == {"rate", "time", "size"}
    for slopes in pendulum.slopes.values():
        assert slopes == pytest.approx({"forward": 2, "reverse": 2}, abs=0.02)


def test_forward_and_reverse_agree_to_machine_precision(pendulum):
    assert pendulum.disagreement < 1e-14


def test_table_has_one_line_per_leaf(pendulum):
    head, *lines = str(pendulum).splitlines()
    assert "forward" in head
    assert "reverse" in head
    assert [line.split()[0] for line in lines] == list(pendulum.slopes)


# Slope 1 where the wrong part dominates the quadratic one, which at the steps that are
# used (1e-8 to 1e-6) it does down to one part in a million.
@pytest.mark.parametrize("factor", [0.0, 0.5, 1 + 1e-3, 1 + 1e-6])
def test_wrong_derivative_has_slope_one(factor):
    found = taylor_test(_sine_with_derivative(factor), 0.3)
    assert not found.passed
    assert found.slopes["input"]["forward"] == pytest.approx(1, abs=0.1)


def test_derivative_wrong_in_reverse_mode_only_is_detected():
    @jax.custom_vjp
    def product(x, y):
        return jnp.sin(x) * y

    def backward(kept, cotangent):
        x, y = kept
        return jnp.cos(x) * y * cotangent, jnp.cos(x) * cotangent

    product.defvjp(lambda x, y: (product(x, y), (x, y)), backward)
    found = taylor_test(product, 0.3, 0.7, modes=("reverse",))
    assert [leaf.passed for leaf in found.leaves] == [True, False]
    assert np.isnan(found.disagreement)


def test_disagreement_of_the_modes_is_measured():
    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    @sine.defjvp
    def _(primals, tangents):
        (x,), (dx,) = primals, tangents
        transposable = jax.custom_derivatives.linear_call(
            lambda _, t: t, lambda _, t: (1 + 1e-4) * t, (), dx
        )
        return jnp.sin(x), jnp.cos(x) * transposable

    found = taylor_test(sine, 0.3)
    assert found.disagreement == pytest.approx(1e-4, rel=1e-3)
    assert found.slopes["input"]["forward"] == pytest.approx(2, abs=0.1)
    assert found.slopes["input"]["reverse"] == pytest.approx(1, abs=0.1)


def test_linear_function_has_slope_two():
    found = taylor_test(lambda x: 3 * x, jnp.asarray([1.0, 2.0]))
    assert found.slopes["input"]["forward"] == pytest.approx(2, abs=0.02)


def test_leaf_without_effect_is_flagged_and_fails():
    found = taylor_test(lambda x, y: jnp.sin(x) + 0 * y, 0.3, 0.5)
    assert [leaf.flag for leaf in found.leaves] == ["", "no effect"]
    assert not found.passed


def test_stopped_gradient_is_not_flagged_as_without_effect():
    found = taylor_test(lambda x: jax.lax.stop_gradient(jnp.sin(x)), 0.3)
    assert found.leaves[0].flag == ""
    assert found.slopes["input"]["reverse"] == pytest.approx(1, abs=0.1)


def test_infinite_derivative_is_flagged_and_fails():
    found = taylor_test(lambda x: jnp.sqrt(x) + x, jnp.zeros(()))
    assert found.leaves[0].flag == "not finite"
    assert not found.passed


def test_remainder_below_rounding_counts_as_passed():
    found = taylor_test(lambda x: 1 + 1e-13 * jnp.sin(x), 0.3)
    assert found.leaves[0].flag == "below rounding"
    assert found.passed


def test_nonfinite_neighborhood_is_not_flagged_as_below_rounding():
    found = taylor_test(lambda x: jnp.where(x == 0.3, x, x * jnp.nan), 0.3)
    assert found.leaves[0].flag == "not finite"


# From G in SI units to a Julian date; a curvature of 1e10 leaves h below 1e-5 only.
@pytest.mark.parametrize("size", [6.67e-11, 1.0, 2.46e6])
@pytest.mark.parametrize("rate", [1.0, 1e5])
def test_slopes_do_not_depend_on_units(size, rate):
    found = taylor_test(lambda x: jnp.sin(rate * x / size) + x / size, size)
    assert found.slopes["input"]["forward"] == pytest.approx(2, abs=0.1)


def test_given_scale_perturbs_a_leaf_of_zeros():
    steep = taylor_test(lambda x: jnp.sin(1e12 * x), jnp.zeros(()), scale=1e-12)
    assert steep.passed
    by_name = taylor_test(
        lambda x: jnp.sin(1e12 * x["x"]), {"x": jnp.zeros(())}, scale={"x": 1e-12}
    )
    assert by_name.passed


def test_complex_leaves_and_outputs_pass():
    found = taylor_test(
        lambda z: jnp.exp(z) * jnp.asarray([1, 2j]), jnp.asarray(0.3 + 1j)
    )
    assert found.passed
    assert found.disagreement < 1e-14


def test_float32_is_tested_in_float32():
    found = taylor_test(lambda x: jnp.sin(x) * x, jnp.asarray([0.5, 1.0], jnp.float32))
    assert found.passed
    # 2 ulps of float32
    assert found.disagreement < 2.4e-7


def test_same_seed_gives_the_same_slopes():
    first, second = (taylor_test(jnp.sin, 0.3, seed=5).slopes for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("function", "inputs", "options", "message"),
    [
        (jnp.sin, (jnp.arange(3),), {}, "no float arrays"),
        (jnp.sin, (0.3,), {"modes": ("sideways",)}, "modes must be among"),
        (jnp.sin, (0.3,), {"scale": {"inputs": 1.0}}, "a name in scale must be one of"),
        (jnp.log, (-1.0,), {}, "finite"),
        (lambda x: 3, (0.3,), {}, "finite float arrays"),
        (np.sin, (jnp.ones(3),), {}, r"function.*NumPy.*jax\.numpy"),
    ],
)
def test_invalid_arguments_raise_value_error(function, inputs, options, message):
    with pytest.raises(ValueError, match=message):
        taylor_test(function, *inputs, **options)


def _with_derivative(function, derivative):
    @jax.custom_jvp
    def wrapped(x):
        return function(x)

    wrapped.defjvp(lambda x, dx: (function(*x), derivative(*x) * dx[0]))
    return wrapped


# At the point of test each output is 0, or what rounding leaves of 0.
_AT_ZERO = {
    "sine at 0": (jnp.sin, jnp.cos, 0.0),
    "sine at pi": (jnp.sin, jnp.cos, np.pi),
    "a line": (lambda x: 3 * x, lambda x: 3.0 + 0 * x, 0.0),
    "a small line": (lambda x: 1e-9 * x, lambda x: 1e-9 + 0 * x, 0.0),
    "a difference": (lambda x: x**2 - 0.09, lambda x: 2 * x, 0.3),
}


@pytest.mark.parametrize("factor", first_plain([1 + 1e-4, 0.0, -1.0, 7.0], 2))
@pytest.mark.parametrize("name", _AT_ZERO)
def test_wrong_derivative_at_a_zero_output_is_detected(name, factor):
    function, derivative, at = _AT_ZERO[name]
    wrong = _with_derivative(function, lambda x: factor * derivative(x))
    assert taylor_test(_with_derivative(function, derivative), at).passed
    assert not taylor_test(wrong, at).passed
    # beside another output that is right, and whose magnitude it has to reach
    assert taylor_test(lambda x: (function(x), jnp.exp(x)), at).passed
    assert not taylor_test(lambda x: (wrong(x), jnp.exp(x)), at).passed


@pytest.mark.parametrize("power", [2, 3, 4])
def test_remainder_of_a_power_at_zero_falls_as_that_power(power):
    found = taylor_test(lambda x: x**power, jnp.zeros(()))
    assert found.passed
    slopes = found.slopes["input"]
    assert slopes == pytest.approx({"forward": power, "reverse": power}, abs=0.05)
    wrong = _with_derivative(lambda x: x**power, lambda x: 1e-3 + 0 * x)
    assert not taylor_test(wrong, jnp.zeros(())).passed


def test_wrong_derivative_at_a_zero_complex_output_is_detected():
    def function(z):
        return 1j * jnp.sin(z)

    assert taylor_test(function, jnp.asarray(0j)).passed
    wrong = _with_derivative(function, lambda z: 7j * jnp.cos(z))
    assert not taylor_test(wrong, jnp.asarray(0j)).passed


def test_floats_in_inputs_become_arrays():
    found = taylor_test(lambda m: jnp.sin(m["a"] * m["b"]), {"a": 1.0, "b": 2.0})
    assert found.passed and list(found.slopes) == ["a", "b"]
