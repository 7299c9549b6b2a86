"""The Python blocks of README and documentation run, each page from top to bottom.

Those of the home page, the tutorials and the page on clusters are run by the build of
the site, which shows their output: `mkdocs build`, the stage `docs` of .ci/run. Those
of the gallery stand each for itself, see tests/test_gallery.py.
"""

import ast
import dataclasses
import pathlib
import runpy
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
DOCS = REPOSITORY / "docs"
BUILD = runpy.run_path(str(DOCS / "_run_page.py"))
blocks, is_executed = BUILD["blocks"], BUILD["is_executed"]
WITH_CODE = [
    page
    for page in PAGES
    if blocks(page.read_text())
    and page.parent.name != "gallery"
    and not (
        page.is_relative_to(DOCS) and is_executed(page.relative_to(DOCS).as_posix())
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=pytest.mark.about(page.relative_to(REPOSITORY).as_posix()),
            id=page.relative_to(REPOSITORY).as_posix(),
        )
        for page in WITH_CODE
    ],
)
def test_examples_of_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for code in blocks(page.read_text()):
        exec(compile(code, page, "exec"), namespace)
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")  # a page has more than Matplotlib lets stand open
    assert "ds" in namespace, "the page shows diffsim at work"


HALF, PAIR = jnp.array(0.5), jnp.array([0.5, 1.0])
#: Every simulation that the docs and examples define, and what it is made of.
SIMULATIONS = [
    ("docs/tutorials/own_simulation.md", "LotkaVolterra", (HALF,) * 4 + (PAIR,)),
    ("docs/tutorials/events.md", "Ball", (HALF,) * 3),
    ("docs/tutorials/events.md", "Thruster", (HALF,)),
    ("docs/coming_from/diffrax.md", "VanDerPol", (HALF, (HALF, HALF))),
    ("docs/concepts.md", "Oscillator", (HALF,) * 4),
    ("docs/faq.md", "Oscillator", (HALF,) * 2),
    ("examples/03_your_own_simulation.py", "DampedOscillator", (HALF,) * 4),
    ("examples/05_shooting.py", "Slab", (HALF,) * 2),
]


def definitions(page):
    """Imports, classes and functions of a page, without anything that it runs."""
    text = (REPOSITORY / page).read_text()
    code = text if page.endswith(".py") else "\n".join(blocks(text))
    kinds = ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef
    return [node for node in ast.parse(code).body if isinstance(node, kinds)]


def model_of(page, name, fields):
    namespace = {"__name__": "page"}
    exec(compile(ast.Module(definitions(page), []), page, "exec"), namespace)
    return namespace[name](*fields)


@pytest.mark.parametrize(("page", "name", "fields"), first_plain(SIMULATIONS))
def test_runs_of_the_docs_make_tables_files_and_plots(page, name, fields, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("xarray")
    model = model_of(page, name, fields)
    trajectory = ds.simulate(model, model.t0 + np.array([0.0, 0.1]))
    dataset = trajectory.to_xarray()
    assert dataset.sizes["time"] == 2
    ds.save(tmp_path / "run.ds", trajectory)
    assert ds.load(tmp_path / "run.ds").to_xarray().identical(dataset)
    trajectory.plot()
    pyplot.close("all")


@pytest.mark.slow
@pytest.mark.parametrize(("page", "name", "fields"), SIMULATIONS)
def test_sweeps_of_the_docs_make_tables_stores_and_plots(page, name, fields, tmp_path):
    xarray, pyplot = map(pytest.importorskip, ("xarray", "matplotlib.pyplot"))
    pytest.importorskip("zarr")
    model = model_of(page, name, fields)
    found = ds.sweep(
        lambda model: ds.simulate(model, model.t0 + np.array([0.0, 0.1])),
        model,
        {dataclasses.fields(model)[0].name: np.array([0.5, 0.6])},
        store=tmp_path / "runs.zarr",
    )
    table = found.to_xarray()
    assert dict(table.sizes).items() >= {"run": 2, "time": 2}.items()
    stored = xarray.open_zarr(tmp_path / "runs.zarr")
    for name in set(table.variables) - {"successful"}:
        np.testing.assert_array_equal(stored[name], table[name])
    found.plot(output=lambda outputs: outputs.times[:, -1])
    pyplot.close("all")


def test_every_simulation_of_the_docs_has_a_row():
    pages = [*PAGES, *(REPOSITORY / "examples").glob("*.py")]
    found = {
        (page.relative_to(REPOSITORY).as_posix(), node.name)
        for page in pages
        if "ds.AbstractSimulation)" in page.read_text()
        for node in definitions(page.relative_to(REPOSITORY).as_posix())
        if isinstance(node, ast.ClassDef) and "AbstractSimulation" in ast.dump(node)
    }
    assert found == {(page, name) for page, name, _ in SIMULATIONS}
