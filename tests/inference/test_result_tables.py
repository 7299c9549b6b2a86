"""Fits and forecasts as tables and datasets of their parameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import inference


pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")

X = np.linspace(0.0, 1.0, 7)
DATA = 2 + 3 * X + np.array([0.1, -0.2, 0.1, 0, 0.2, -0.1, -0.1])


class Line(eqx.Module):
    offset: jax.Array
    slope: jax.Array


def predict(line):
    return line.offset + line.slope * X


@pytest.fixture(scope="module")
def fit():
    start = Line(jnp.array(1.0), jnp.array(1.0))
    return ds.fit(predict, start, DATA, noise=inference.Gaussian(0.1))


def closed_form():
    rows = np.stack([np.ones(7), X], axis=1)
    return np.linalg.lstsq(rows, DATA, rcond=None)[0], 0.01 * np.linalg.inv(
        rows.T @ rows
    )


def test_table_of_a_fit_has_a_row_a_parameter(fit, tmp_path):
    table = fit.to_dataframe()
    values, covariance = closed_form()
    assert table.index.tolist() == ["offset", "slope"]
    np.testing.assert_allclose(table["value"], values, rtol=1e-9)
    np.testing.assert_allclose(table["stderr"], np.sqrt(np.diag(covariance)), rtol=1e-9)
    assert table.loc["slope", "start"] == 1.0
    assert table.loc["slope", "upper"] == np.inf
    assert not table["at_bound"].any()
    table.to_csv(tmp_path / "fit.csv")
    again = pandas.read_csv(tmp_path / "fit.csv", index_col=0)
    pandas.testing.assert_frame_equal(again, table, rtol=1e-14, atol=0)


def test_dataset_of_a_fit_has_its_covariance_and_statistics(fit, tmp_path):
    dataset = fit.to_xarray()
    found = dataset.covariance.sel(parameter="offset", other_parameter="slope")
    assert found.item() == pytest.approx(closed_form()[1][0, 1], rel=1e-9)
    residuals = DATA - predict(Line(*closed_form()[0]))
    assert dataset.attrs["chi2"] == pytest.approx(np.sum(residuals**2) / 0.01)
    assert dataset.attrs["dof"] == 5 and dataset.attrs["status"] == "successful"
    dataset.to_netcdf(tmp_path / "fit.nc")
    assert xarray.load_dataset(tmp_path / "fit.nc").identical(dataset)


def test_tables_of_a_forecast_have_its_error_bars_and_matrix(fit, tmp_path):
    forecast = ds.fisher(predict, fit.model, noise=inference.Gaussian(0.1))
    covariance = closed_form()[1]
    table = forecast.to_dataframe()
    np.testing.assert_allclose(table["stderr"], np.sqrt(np.diag(covariance)), rtol=1e-9)
    dataset = forecast.to_xarray()
    np.testing.assert_allclose(dataset.matrix, np.linalg.inv(covariance), rtol=1e-9)
    assert dataset.attrs["kind"] == "expected"
    dataset.to_netcdf(tmp_path / "forecast.nc")
    assert xarray.load_dataset(tmp_path / "forecast.nc").identical(dataset)
