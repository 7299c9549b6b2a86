"""A store holds what a sweep in memory returns, bit for bit, and is read by xarray."""

import warnings

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain
from stored_springs import content, run

import diffsim as ds
from diffsim import pde, problems
from diffsim.integrators import Leapfrog
from diffsim.simulations import Method
from diffsim.sweeps import SweepOptions, sweep


zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")

RATES = np.linspace(0.5, 1.5, 11)


def model():
    return {"rate": jnp.array(1.0), "start": jnp.array([1.0, -0.5])}


def spring(model):
    """Positions and speeds of two springs, and their energies."""

    def step(carry, _):
        x, v = carry
        v = v - 0.1 * model["rate"] * x
        return (x + 0.1 * v, v), None

    start = model["start"], jnp.zeros(2)
    (x, v), _ = jax.lax.scan(step, start, None, length=20)
    return {"x": x, "energy": jnp.sum(v**2 + model["rate"] * x**2)}


def mixed(model):
    """Numbers of every kind, among them some that are the same in all runs."""
    x = model["rate"] * model["start"]
    return {
        "complex": x + 1j,
        "float32": x.astype(jnp.float32),
        "integer": (10 * x).astype(jnp.int32),
        "large": x > 0.6,
        "list": [x[0], jnp.arange(3)],
        "same": jnp.asarray(2.0),
    }


def total(model):
    return spring(model)["energy"]


def outer_planets(system):
    method = Method(Leapfrog(), step=1.0)
    return ds.simulate(system, np.linspace(0.0, 3.0, 4), method)


def water(channel):
    return ds.simulate(channel, [0.0, 0.1], Method(diffrax.Euler(), step=0.05))


def channel():
    law = pde.ShallowWater(1.0)
    depth = jnp.stack([1 + 0.1 * jnp.arange(4.0), jnp.zeros(4)])
    return pde.Evolution(law, depth, pde.Grid(4), pde.ReflectingWall())


def assert_same_bits(found, expected):
    for x, y in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def assert_same_sweep(found, expected):
    assert_same_bits(found.outputs, expected.outputs)
    assert_same_bits(found.derivative, expected.derivative)
    assert_same_bits(
        (found.status, found.error_estimate, found.parameters),
        (expected.status, expected.error_estimate, expected.parameters),
    )
    structures = map(jax.tree.structure, (found.outputs, expected.outputs))
    assert len(set(structures)) == 1


def opened(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xarray.open_zarr(path)


CASES = {
    "mixed": (mixed, model, {"rate": RATES}, {}),
    "rows": (spring, model, {"start": np.stack([RATES, -RATES], 1)}, {}),
    "jacobian": (spring, model, {"rate": RATES}, {"derivative": "jacobian"}),
    "bodies": (
        outer_planets,
        problems.outer_solar_system,
        {"bodies.masses[Jupiter]": 1e-3 * RATES[:5]},
        {"error_estimate": True},
    ),
    "dict": (spring, model, {"rate": RATES}, {}),
    "gradient": (total, model, {"rate": RATES}, {"derivative": "gradient"}),
    "fisher": (spring, model, {"rate": RATES}, {"derivative": "fisher"}),
    "field": (water, channel, {"equation.gravity": RATES[:4]}, {}),
}


@pytest.fixture(scope="module", params=first_plain(CASES, 4))
def pair(request, tmp_path_factory):
    """A sweep in memory, the same in a store, and where that is."""
    predict, made, over, options = CASES[request.param]
    path = tmp_path_factory.mktemp("stores") / "runs.zarr"
    kept = sweep(predict, made(), over, batch=4, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = sweep(
            predict,
            made(),
            over,
            batch=4,
            store=path,
            options=SweepOptions(chunk=3),
            **options,
        )
    return kept, stored, path


def test_stored_runs_equal_those_in_memory_bit_for_bit(pair):
    kept, stored, _ = pair
    assert stored.stats["computed"] == len(kept) == len(stored)
    assert_same_sweep(stored, kept)


def test_xarray_reads_a_store_under_the_names_of_to_xarray(pair):
    kept, stored, path = pair
    dataset, expected = opened(path), kept.to_xarray()
    for name in set(expected.variables) - {"successful"}:
        assert dataset[name].dims == expected[name].dims
        np.testing.assert_array_equal(dataset[name], expected[name])
        assert dataset[name].dtype == expected[name].dtype
    assert set(expected.coords) - {"successful", "error_estimate"} <= set(
        dataset.coords
    )
    status = dataset.status.attrs["flag_values"], dataset.status.attrs["flag_meanings"]
    assert dict(zip(status[0], status[1].split(), strict=True))[0] == "successful"
    xarray.testing.assert_identical(stored.to_xarray(), expected)


def test_chunks_of_zarr_are_those_of_the_store(pair):
    kept, _, path = pair
    dataset = opened(path)
    runs = len(kept)
    whole = (3,) * (runs // 3) + ((runs % 3,) if runs % 3 else ())
    for name in dataset.data_vars:
        assert dataset[name].chunks == (whole, *((n,) for n in dataset[name].shape[1:]))
        assert zarr.open_group(path, mode="r")[name].shards is None


def test_counts_of_steps_and_times_are_in_the_store(tmp_path):
    stored = sweep(
        outer_planets,
        problems.outer_solar_system(),
        {"bodies.masses[Jupiter]": [1e-3, 2e-3]},
        batch=1,
        store=tmp_path / "runs.zarr",
    )
    dataset = opened(tmp_path / "runs.zarr")
    assert dataset.positions.dims == ("run", "time", "body", "axis")
    assert dataset.body.values.tolist()[1] == "Jupiter"
    np.testing.assert_array_equal(dataset.time, [0.0, 1.0, 2.0, 3.0])
    assert dataset["stats.num_steps"] == stored.outputs.stats["num_steps"][0] == 3


def test_float32_is_stored_as_float32(tmp_path):
    with jax.enable_x64(False):
        over = {"rate": np.float32(RATES[:4])}
        kept = sweep(spring, model(), over, batch=4)
        stored = sweep(spring, model(), over, batch=4, store=tmp_path / "runs.zarr")
        assert_same_sweep(stored, kept)
    dataset = opened(tmp_path / "runs.zarr")
    assert dataset.x.dtype == dataset.energy.dtype == np.float32


@pytest.mark.parametrize("chunk", first_plain([3, 50, None, 1, 4, 11], 3))
def test_any_chunk_holds_all_runs(chunk, tmp_path):
    """One that does not divide them, one of one run, one larger than all."""
    path, options = tmp_path / "runs.zarr", SweepOptions(chunk=chunk)
    over = {"rate": RATES}
    kept = sweep(spring, model(), over, batch=4)
    stored = sweep(spring, model(), over, batch=4, store=path, options=options)
    assert_same_sweep(stored, kept)
    assert opened(path).x.chunks[0][0] == min(chunk or 4, 11)


def test_parameters_of_any_name_are_coordinates(tmp_path):
    made = {"m/x": jnp.arange(3.0), "y": {"a b": jnp.array(1.0)}}

    def predict(model):
        return {"flux/density": model["m/x"].sum(), "of b": model["y"]["a b"]}

    over = {"m/x[0]": RATES, "y.a b": RATES + 2}
    run(tmp_path / "runs.zarr", predict, made, over)
    found = xarray.open_zarr(tmp_path / "runs.zarr")
    assert set(found.coords) == {"run", "m_x[0]", "y.a_b"}
    assert set(found.data_vars) == {"flux_density", "of_b", "status"}
    for path, values in over.items():
        (stored,) = [x for x in found.coords.values() if x.attrs.get("path") == path]
        np.testing.assert_array_equal(stored, values)


def test_runs_that_were_not_run_hold_no_number_that_may_be_one(tmp_path):
    def predict(model):
        whole = (10 * model["rate"]).astype(int)
        return {"i": whole, "u": whole.astype(jnp.uint8), "x": model["rate"]}

    run(tmp_path / "runs.zarr", predict, part=(0, 2))
    found = xarray.open_zarr(tmp_path / "runs.zarr")
    missing = found.status.values == found.status.attrs["not_run"]
    assert missing.sum() == 5
    assert np.all(found.i[missing] == np.iinfo(np.int64).min)
    assert np.all(found.u[missing] == 255)
    assert np.all(np.isnan(found.x[missing]))
    assert not np.isnan(found.x[~missing]).any()


def test_runs_of_a_part_have_their_numbers_in_the_sweep(tmp_path):
    def predict(model):
        return jnp.where(model["rate"] > 1.2, jnp.nan, model["rate"])

    numbers = [3, 4, 5, 9, 10]
    for store in (None, tmp_path / "runs.zarr"):
        found = run(store, predict, part=(1, 2))
        assert found.runs.tolist() == numbers
        assert found.to_xarray().run.values.tolist() == numbers
        assert [failure.run for failure in found.failures] == [9, 10]
        assert "run 9: rate = 1.4" in str(found)


def test_one_run_can_be_stored(tmp_path):
    over = {"rate": RATES[:1]}
    stored = sweep(spring, model(), over, batch=4, store=tmp_path / "runs.zarr")
    assert_same_sweep(stored, sweep(spring, model(), over, batch=4))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_parts_make_the_store_of_the_whole_in_any_order(order, tmp_path):
    over, whole, parts = {"rate": RATES}, tmp_path / "whole", tmp_path / "parts"
    all_ = sweep(
        spring, model(), over, batch=2, store=whole, options=SweepOptions(chunk=2)
    )
    for part in order:
        options = SweepOptions(chunk=2, part=(part, 2))
        found = sweep(spring, model(), over, batch=2, store=parts, options=options)
        own = np.arange(11) // 2 % 2 == part
        assert found.stats["computed"] == len(found) == own.sum()
        np.testing.assert_array_equal(found.parameters["rate"], RATES[own])
        for name, values in all_.outputs.items():
            assert_same_bits(found.outputs[name], values[own])
    assert content(parts) == content(whole)


@pytest.mark.parametrize("stored", [True, False])
def test_part_without_a_chunk_is_an_empty_sweep(stored, tmp_path):
    options = SweepOptions(chunk=6, part=(2, 3))  # two chunks
    found = sweep(
        spring,
        model(),
        {"rate": RATES},
        batch=2,
        store=tmp_path / "runs.zarr" if stored else None,
        options=options,
    )
    assert len(found) == 0 and found.failures == ()
    assert found.outputs["x"].shape == (0, 2)
    assert "sweep of 0 runs" in str(found)
    assert found.to_xarray().sizes["run"] == 0


def test_outputs_without_a_type_in_zarr_raise_value_error(tmp_path):
    def predict(model):
        return model["rate"].astype(jnp.bfloat16)

    with pytest.raises(ValueError, match="output is bfloat16, which Zarr has no type"):
        sweep(predict, model(), {"rate": RATES}, store=tmp_path / "runs.zarr")
    assert list(tmp_path.iterdir()) == []


def test_outputs_of_no_size_are_returned(tmp_path):
    def predict(model):
        return {"none": model["start"][:0], "one": model["rate"]}

    stored = sweep(predict, model(), {"rate": RATES}, store=tmp_path / "runs.zarr")
    assert stored.outputs["none"].shape == (11, 0)
    np.testing.assert_array_equal(stored.outputs["one"], RATES)


def test_outputs_of_the_names_of_parameters_raise_value_error(tmp_path):
    with pytest.raises(ValueError, match=r"several named \['rate'\]; give param"):
        sweep(dict, model(), {"rate": RATES}, store=tmp_path / "runs.zarr")


@pytest.mark.parametrize("store", ["s3://bucket/runs.zarr", 3, b"runs.zarr"])
def test_store_that_is_no_path_raises_value_error(store):
    with pytest.raises(ValueError, match="store must be a"):
        sweep(total, model(), {"rate": RATES}, store=store)
