"""What is wrong in a call of `sweeps` is said in one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sentences import of, options, pairs, raises, table

from diffsim import inference, sweeps
from diffsim.sweeps import SweepOptions, sweep


SAMPLES = (sweeps.latin_hypercube, sweeps.sobol, sweeps.from_prior)
SINGLE, SMALL = jnp.array(1.0, jnp.float32), {"small": jnp.array(1, jnp.int8)}
DEVICE, KEYS = jax.devices()[0], jax.random.split(jax.random.key(7))
NOTHING = r"predict must .*none; .* return is missing"
KIND = r"options must be an object such as sweeps.SweepOptions\(\), got"
BEYOND = r"over\['value'\] has .* in float32, the type"


def swept(predict=lambda x: (x.sum(), x**2), over=None, **options):
    return sweep(predict, jnp.ones(2), over or {"[0]": [1.0, 2.0]}, **options)


def kinds(over, predict=lambda m: m["a"], **options):
    key = jax.random.key(0)
    model = {"a": jnp.array(1.0), "n": jnp.array([1, 2, 3]), "key": key, "m": 4}
    return sweep(predict, model, over, **options)


def inside(x):
    return sweep(jnp.sin, jnp.array(1.0), {"value": x}).outputs


@pytest.mark.parametrize("sample", SAMPLES)
@table(
    of(
        lambda runs, sample: sample({"a": (0.0, 1.0)}, runs, seed=0),
        (0, "runs must be a whole number from 1, got 0"),
        (2.5, "runs must be a whole number from 1, got 2.5"),
        (True, "runs must be a whole number from 1"),
    ),
    of(
        lambda seed, sample: sample({"a": (0.0, 1.0)}, 4, seed=seed),
        (-1, "seed must be a whole number from 0, got -1"),
        (0.5, "seed must be a whole number from 0, got 0.5"),
        (None, "seed must be a whole number from 0, got None"),
    ),
)
def test_mistake_in_any_sample_raises_value_error(sample, call, words):
    raises(ValueError, lambda: call(sample), words)


@table(
    of(
        sweeps.grid,
        ({"a": 1.0}, "shape"),
        ({"a": []}, "at least one value"),
        ({"a": np.ma.masked_equal([1.0, 2.0], 2.0)}, "masked"),
    ),
    of(
        lambda over: sweep(jnp.sum, jnp.ones(2), over),
        ({}, "over must map paths"),
        ([1.0], r"over must map paths to arrays.*got list"),
        (np.arange(3.0), "over must map"),
        ({"x": [1.0]}, "names nothing"),
        ({3: [1.0]}, r"over must be a path or several.*got \(3,\)"),
        ({"[0]": 1.0}, "leading run axis"),
        ({"[0]": []}, "at least one run"),
        ({"[0]": [1j]}, "real numbers"),
        ({"[0]": ["a"]}, "real numbers"),
        ({"[0]": [[1.0]]}, r"must have shape \('run',\), got \(1, 1\)"),
        ({"[0]": [1.0], "[1]": [1.0, 2.0]}, "same number of runs"),
        ({"[0]": [1.0], "*": np.ones((1, 2))}, "twice"),
    ),
    of(
        kinds,
        ({"m": [0.5, 1.0]}, r"over\['m'\] must be integers from .* got float64"),
        ({"m": [2.0**70, 1.0]}, r"over\['m'\] must be integers"),
        ({"n": [[1, 2, 3, 4]]}, r"over\['n'\] must have shape \('run', 3\)"),
        ({"key": KEYS, "a": [1.0]}, "same number of runs"),
        ({"key": np.arange(4)}, r"over\['key'\] must have shape \('run', 2\)"),
    ),
    of(
        lambda value: sweep(jnp.sin, SINGLE, {"value": np.array([1.0, value])}),
        (1e300, BEYOND),
        (-1e39, BEYOND),
        (1e-46, BEYOND),
    ),
    of(
        options(swept),
        ({"batch": 0}, "batch must be a whole number from 1"),
        ({"batch": -1}, "batch must be a whole number from 1"),
        ({"batch": 2.5}, "batch must be a whole number from 1"),
        ({"batch": "all"}, "batch must be a whole number from 1"),
        ({"batch": True}, "batch must be a whole number from 1"),
        ({"options": inference.FitOptions()}, KIND),
        ({"options": SweepOptions}, KIND),
        ({"options": {"memory": 1}}, KIND),
        ({"devices": 2}, "devices must be devices of JAX"),
        ({"devices": "cpu"}, "devices must be devices of JAX"),
        ({"devices": []}, "at least one"),
        ({"devices": [DEVICE] * 2}, "none of them twice"),
        ({"derivative": "hessian"}, "derivative must be one of"),
        (
            {"predict": lambda x: x[0] * jnp.ones(5), "derivative": "gradient"},
            r"one number, got floats of shape \(5,\); derivative='jacobian'",
        ),
        ({"predict": lambda x: "text"}, "got str"),
    ),
    *(
        of(
            lambda outputs, batch=batch: swept(lambda x: outputs, batch=batch),
            (None, NOTHING),
            ((), NOTHING),
            ({}, NOTHING),
            ({"a": None}, NOTHING),
        )
        for batch in (None, "auto")
    ),
    of(
        lambda memory: SweepOptions(memory=memory),
        (0, "memory must be a whole number from 1"),
        (2e9, "memory must be a whole number from 1"),
        ("x", "memory must be a whole number from 1"),
    ),
    of(
        lambda part: SweepOptions(part=part),
        ((2, 2), r"part must be .* with i from 0 to n - 1"),
        ((-1, 2), "part must be a whole number from 0, got -1"),
        ((0, 0), "part must be a whole number from 1, got 0"),
    ),
    [
        (lambda: sweeps.grid({"a": [1.0]}, a=[1.0]), "as keywords"),
        (lambda: jax.jit(inside)(jnp.ones(3)), r"jax\.vmap"),
    ],
    pairs(
        lambda: jax.jit(lambda: inside(np.arange(3.0)))(),
        "cannot be compiled; inside jit",
        lambda: sweep(lambda m: 1.0 * m["small"], SMALL, {"small": [1, 300]}),
        "from -128 to 127, as that leaf",
        lambda: kinds({"m": [1, 2]}, lambda m: 1.0 * m["m"], derivative="gradient"),
        "only integers or keys",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)
