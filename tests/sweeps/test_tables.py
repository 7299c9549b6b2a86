"""Sweeps as datasets and tables: runs, parameters, outputs and outcomes by name."""

import re

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import pde, simulations, sweeps


pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")


class Line(eqx.Module):
    offset: jnp.ndarray
    slope: jnp.ndarray


MODEL = Line(jnp.array(1.0), jnp.array([2.0, 3.0]))
X = np.array([0.0, 0.5, 1.0])


def line(model):
    return {"y": model.offset + model.slope[0] * X, "end": 2 * jnp.sqrt(model.offset)}


@pytest.fixture(scope="module")
def product():
    over = sweeps.grid({"offset": [1.0, -1.0], "slope[0]": [2.0, 4.0, 6.0]})
    return ds.sweep(line, MODEL, over)


def test_dataset_of_a_sweep_has_parameters_as_coordinates_of_runs(product):
    dataset = product.to_xarray()
    assert dataset.y.dims == ("run", "y_axis_0") and dataset.end.dims == ("run",)
    np.testing.assert_array_equal(dataset["slope[0]"], [2, 4, 6, 2, 4, 6])
    np.testing.assert_array_equal(dataset.y, product.outputs["y"])
    assert dataset.successful.values.tolist() == [True] * 3 + [False] * 3
    status = dataset.status
    names = status.attrs["flag_meanings"].split()
    meaning = dict(zip(status.attrs["flag_values"].tolist(), names, strict=True))
    met = [meaning[code] for code in status.values.tolist()]
    assert met == ["successful"] * 3 + ["prediction_not_finite"] * 3


def test_dataset_of_a_product_unstacks_into_an_axis_a_parameter(product):
    dataset = product.to_xarray().set_index(run=["offset", "slope[0]"]).unstack("run")
    assert dataset.end.sel({"offset": 1.0, "slope[0]": 4.0}).item() == 2.0
    np.testing.assert_array_equal(
        dataset.y.sel(offset=1.0).transpose("slope[0]", ...),
        1 + np.array([2.0, 4, 6])[:, None] * X,
    )


def test_outputs_take_names_and_places_that_are_given(product):
    axes = simulations.StateAxes(
        ("end", "height"), axes={"height": ["x"]}, entries={"x": X}
    )
    dataset = product.to_xarray(axes)
    assert dataset.height.dims == ("run", "x")
    np.testing.assert_array_equal(dataset.x, X)
    np.testing.assert_array_equal(dataset.end, product.outputs["end"])


def test_table_of_a_sweep_has_a_row_a_run():
    found = ds.sweep(lambda m: m.offset**2, MODEL, {"offset": np.arange(3.0)})
    table = found.to_dataframe()
    assert list(table) == ["offset", "output", "successful"]
    np.testing.assert_array_equal(table["output"], [0, 1, 4])
    assert table["successful"].all() and table.index.name == "run"


def named(parameter, output="y", **options):
    model, over = ({parameter: x} for x in (jnp.array(1.0), np.ones(2)))
    return ds.sweep(lambda m: {output: m[parameter] ** 2}, model, over, **options)


GRADIENT, JACOBIAN = ({"derivative": x} for x in ("gradient", "jacobian"))
ERROR = {"error_estimate": True}


@pytest.mark.parametrize(
    ("names", "options", "twice"),
    [
        (["status"], {}, "status"),
        (["successful"], {}, "successful"),
        (["error_estimate"], ERROR, "error_estimate"),
        (["run"], {}, "run"),
        (["y"], {}, "y"),
        (["parameter"], GRADIENT, "parameter"),
        (["gradient"], GRADIENT, "gradient"),
        (["jacobian_y"], JACOBIAN, "jacobian_y"),
        (["a", "status"], {}, "status"),
        (["a", "successful"], {}, "successful"),
        (["a", "error_estimate"], ERROR, "error_estimate"),
        (["a", "run"], {}, "run"),
        (["a", "gradient"], GRADIENT, "gradient"),
    ],
)
def test_names_of_others_in_a_dataset_raise_value_error(names, options, twice):
    found = named(*names, **options)
    with pytest.raises(
        ValueError, match=rf"several named \['{twice}'\]; .*is run, sta"
    ):
        found.to_xarray()


@pytest.mark.parametrize(
    ("names", "options", "twice"),
    [
        (["successful"], {}, "successful"),
        (["error_estimate"], ERROR, "error_estimate"),
        (["y"], {}, "y"),
        (["a", "successful"], {}, "successful"),
        (["a", "error_estimate"], ERROR, "error_estimate"),
        (["a", "gradient[a]"], GRADIENT, "gradient[a]"),
    ],
)
def test_names_of_others_in_a_table_raise_value_error(names, options, twice):
    found = named(*names, **options)
    twice = re.escape(f"['{twice}']")
    with pytest.raises(ValueError, match=rf"several named {twice}; .*is run, status"):
        found.to_dataframe()


@pytest.mark.parametrize(
    "name", ["error_estimate", "manifest", "zarr.json", "time", "times", "parameter"]
)
def test_other_names_are_those_of_arrays(name):
    for found in (named(name), named("a", name)):
        for table in (found.to_xarray(), found.to_dataframe()):
            np.testing.assert_array_equal(table[name], np.ones(2))


def test_arrays_a_run_make_no_table(product):
    with pytest.raises(ValueError, match=r"one number a run, got arrays in \['y'\]"):
        product.to_dataframe()
    pair = ds.sweep(lambda m: m.offset, MODEL, {"slope": np.ones((2, 2))})
    with pytest.raises(ValueError, match=r"got arrays in \['slope'\]"):
        pair.to_dataframe()
    assert pair.to_xarray()["slope"].dims == ("run", "slope_axis_0")


@pytest.mark.parametrize(
    ("output", "values", "usable"),
    [
        (lambda x: x, [1.0, 1e39, -1e39, 3e38], [1, 0, 0, 1]),
        (lambda x: x**2, [1.0, 1e20, -1e25, 1e18], [1, 0, 0, 1]),
        (lambda x: -(x**2), [1.0, 1e20, -1e25, 1e18], [1, 0, 0, 1]),
        (lambda x: jnp.stack([0 * x, x**2]), [1.0, 1e20], [1, 0]),
        (lambda x: {"a": x**2, "n": 7}, [1.0, 1e20], [1, 0]),
        (jnp.log, [1.0, 0.0, -1.0, 2.0], [1, 0, 0, 1]),
        (lambda x: 0 * x, [3.4028235e38, 3.4028236e38], [1, 0]),
        (lambda x: x, [2.0**24 + 1, 1e-46, 2.0**53, 0.0], [1, 1, 1, 1]),
        (lambda x: jnp.int64(2**62) + x.astype(int), [1.0, 2.0], [1, 1]),
        (lambda x: x > 1, [1.0, 1e39], [1, 0]),
        (lambda x: jnp.zeros(0), [1.0, 1e39], [1, 0]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_rows_that_are_not_finite_in_float32_are_masked(output, values, usable):
    found = ds.sweep(lambda m: output(m["x"]), {"x": jnp.array(1.0)}, {"x": values})
    theta, x, mask = found.to_sbi()
    assert theta.dtype == x.dtype == np.float32
    assert mask.tolist() == [bool(is_usable) for is_usable in usable]
    assert np.isfinite(theta[mask]).all() and np.isfinite(x[mask]).all()


EULER = ds.Method(diffrax.Euler(), step=0.05)


def rod(length=1.0):
    grid = pde.Grid(4, 0.0, length)
    return pde.Evolution(pde.Diffusion(0.1), jnp.ones(4), grid, pde.Dirichlet(0.0))


def trajectory(model):
    return ds.simulate(model, [0.0, 0.1], EULER)


def test_trajectories_of_a_sweep_keep_their_axes(tmp_path):
    over = {"equation.diffusivity": np.array([0.1, 0.2])}
    found = ds.sweep(trajectory, rod(), over)
    dataset = found.to_xarray()
    assert dataset.u.dims == ("run", "time", "x")
    np.testing.assert_allclose(dataset.x, [0.125, 0.375, 0.625, 0.875])
    np.testing.assert_array_equal(dataset.time, [0.0, 0.1])
    np.testing.assert_array_equal(dataset.u, found.outputs.states[:, :, 0])
    dataset.to_netcdf(tmp_path / "runs.nc")
    assert xarray.load_dataset(tmp_path / "runs.nc").identical(dataset)


def test_trajectories_of_a_sweep_take_names_that_are_given():
    found = ds.sweep(trajectory, rod(), {"equation.diffusivity": np.array([0.1, 0.2])})
    axes = simulations.StateAxes("T", axes={"T": ["c", "s"]}, entries={"c": ["u"]})
    dataset = found.to_xarray(axes)
    assert dataset["T"].dims == ("run", "time", "c", "s")
    assert dataset.c.values.tolist() == ["u"]
    np.testing.assert_array_equal(dataset["T"], found.outputs.states)
    np.testing.assert_array_equal(dataset.time, [0.0, 0.1])
    with pytest.raises(ValueError, match=r"several named \['time'\]"):
        found.to_xarray(simulations.StateAxes("time"))


def test_places_that_differ_from_run_to_run_are_no_coordinates():
    found = ds.sweep(trajectory, rod(), {"grid.upper": np.array([[1.0], [2.0]])})
    dataset = found.to_xarray()
    assert dataset.u.dims == ("run", "time", "x")
    assert "x" not in dataset.coords and "time" in dataset.coords

    def half_way(model):
        method = ds.Method(diffrax.Euler(), step=0.05, max_steps=64)
        return ds.simulate(model, model.grid.upper, method)

    varied = ds.sweep(half_way, rod(), {"grid.upper": np.array([[1.0], [2.0]])})
    np.testing.assert_array_equal(varied.to_xarray().times, [[1.0], [2.0]])


def test_trajectory_beside_other_outputs_raises_value_error():
    found = ds.sweep(
        lambda m: (trajectory(m), m.t0),
        rod(),
        {"equation.diffusivity": np.array([0.1, 0.2])},
    )
    with pytest.raises(ValueError, match="one trajectory a run or of arrays, got 2"):
        found.to_xarray()
