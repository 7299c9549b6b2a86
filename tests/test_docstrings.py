"""Public classes and functions show how they are used, and what they show runs."""

import ast
import importlib
import inspect
import pathlib
import re
import sys
import textwrap

import pytest


ROOT = pathlib.Path(__file__).resolve().parents[1] / "diffsim"
PACKAGES = (
    "simulations",
    "implicit",
    "integrators",
    "nbody",
    "pde",
    "inference",
    "sweeps",
    "verify",
    "problems",
    "plots",
)

#: What has no snippet of its own, and why.
WITHOUT_SNIPPET = {
    "implicit.AdjointReport": "returned by adjoint_report, whose snippet reads it",
    "implicit.ImplicitEquation": "made for implicit_solve, whose snippet makes one",
    "implicit.Solution": "returned by root_solution, whose snippet reads it",
    "implicit.fixed_point_solution": "as root_solution",
    "implicit.least_squares_solution": "as root_solution",
    "implicit.linear_solve_solution": "as root_solution",
    "implicit.minimise_solution": "as root_solution",
    "inference.Degeneracy": "returned by Fisher.degeneracies, see Fisher",
    "nbody.Megno": "returned by megno, whose snippet reads it",
    "nbody.State": "returned by every run of bodies",
    "nbody.TransitTimes": "returned by transit_times, whose snippet reads it",
    "problems.Ephemeris": "returned by load_de440, whose snippet reads it",
    "simulations.EventRecord": "returned in trajectory.events, see Event",
    "simulations.FinalState": "returned in trajectory.final, see Trajectory",
    "sweeps.Failure": "returned in Sweep.failures, see Sweep",
    "sweeps.StoreStatus": "returned by store_status, see there",
    "verify.Check": "returned in CheckReport.laws",
    "verify.CheckReport": "returned by check_simulation, whose snippet reads it",
    "verify.Convergence": "returned by convergence, whose snippet reads it",
    "verify.LeafReport": "returned in TaylorReport.leaves",
    "verify.TaylorReport": "returned by taylor_test, whose snippet reads it",
}

#: What every snippet may use: the names by which the documentation calls packages.
PRELUDE = """
import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix

import diffsim as ds
from diffsim import implicit, inference, integrators, nbody, pde, plots, problems
from diffsim import simulations, sweeps, verify
"""
SNIPPET = re.compile(r"^ *```python\n(.*?)^ *```$", re.M | re.S)


def snippets(path):
    """Each snippet in the docstrings of a file, on the lines on which it stands."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(path.read_text())):
        text = isinstance(node, nodes) and ast.get_docstring(node, clean=False)
        for found in SNIPPET.finditer(text or ""):
            first = node.body[0].lineno + text[: found.start(1)].count("\n")
            yield "\n" * (first - 1) + textwrap.dedent(found[1])


def public(package):
    """Concrete classes and functions of a package, by name."""
    module = importlib.import_module(f"diffsim.{package}")
    named = {f"{package}.{name}": getattr(module, name) for name in module.__all__}
    return {
        name: thing
        for name, thing in named.items()
        if callable(thing) and not thing.__name__.startswith("Abstract")
    }


WITH_SNIPPETS = sorted(path for path in ROOT.rglob("*.py") if any(snippets(path)))


@pytest.mark.parametrize("package", PACKAGES)
def test_public_classes_and_functions_show_their_use(package):
    without = set()
    for name, thing in public(package).items():
        shown = "".join(SNIPPET.findall(inspect.getdoc(thing) or ""))
        if not re.search(rf"\b(ds|{package})\.{thing.__name__}\b", shown):
            without.add(name)
    assert without == {n for n in WITHOUT_SNIPPET if n.startswith(f"{package}.")}


def test_lines_of_a_snippet_are_those_of_its_file():
    path = ROOT / "simulations" / "_method.py"
    lines = path.read_text().splitlines()
    (code,) = snippets(path)
    shown = {n: x for n, x in enumerate(code.splitlines()) if x}
    assert shown
    assert all(lines[n].strip() == x.strip() for n, x in shown.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            marks=pytest.mark.about(path.relative_to(ROOT.parent).as_posix()),
            id=path.relative_to(ROOT).with_suffix("").as_posix(),
        )
        for path in WITH_SNIPPETS
    ],
)
def test_snippets_of_docstrings_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    for code in snippets(path):
        namespace = {"__name__": "__main__"}
        exec(PRELUDE, namespace)
        exec(compile(code, path, "exec"), namespace)
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")
