"""Conventions that hold for the whole package; each switch is shown to be on."""

import ast
import dataclasses
import importlib.resources
import inspect
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys

import jax
import numpy as np
import pytest
from jaxtyping import TypeCheckError
from rows import PACKAGE, for_each_file, parsed

import diffsim._validation
from diffsim import (
    cli,
    implicit,
    inference,
    integrators,
    nbody,
    pde,
    plots,
    problems,
    simulations,
    sweeps,
    verify,
)
from diffsim.problems import load_de440


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]

#: What a user imports, and JAX's state before and after.
IMPORTING = """
import json, os, sys
import jax
flags, environment = dict(jax.config.values), dict(os.environ)
import diffsim
from diffsim import cli, inference, integrators, nbody, plots, problems, simulations
from diffsim import pde, sweeps, verify
print(json.dumps({
    "flags": [k for k, v in jax.config.values.items() if flags.get(k) != v],
    "environment": os.environ != environment,
    "modules": sorted(sys.modules),
}))
"""


@pytest.fixture(scope="module")
def importing():
    """What importing did in a fresh interpreter in which no array can be made."""
    environment = os.environ | {"JAX_PLATFORMS": "no_such_platform"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTING],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_importing_changes_no_flag_and_makes_no_array(importing):
    assert importing["flags"] == []
    assert not importing["environment"]


@pytest.mark.parametrize("extra", ["matplotlib", "tqdm", "rebound"])
def test_importing_needs_no_extra(importing, extra):
    assert extra not in importing["modules"]


def test_tests_run_in_float64():
    assert jax.numpy.ones(()).dtype == np.float64


def test_annotated_types_are_checked():
    with pytest.raises(TypeCheckError):
        diffsim._validation.array_of(3, np.zeros(2), (2,))  # pyright: ignore


def test_annotated_shapes_are_checked():
    ephemeris = load_de440()
    with pytest.raises(TypeCheckError):
        dataclasses.replace(ephemeris, gm=ephemeris.gm[:3])


def test_table_of_units_is_that_of_the_code():
    conventions = (REPOSITORY / "CONVENTIONS.md").read_text()
    rows = re.findall(r'^\| `"(.+)"` \| (\S+) \|', conventions, re.M)
    assert {units: float(value) for units, value in rows} == dict(nbody.G)


def test_package_says_that_it_is_typed():
    assert (importlib.resources.files("diffsim") / "py.typed").is_file()


@pytest.mark.parametrize(
    "package",
    [
        implicit,
        inference,
        integrators,
        nbody,
        pde,
        simulations,
        sweeps,
        verify,
        plots,
        problems,
        cli,
    ],
    ids=lambda package: package.__name__.rpartition(".")[2],
)
def test_public_names_have_a_line_in_the_documentation(package):
    name = package.__name__.rpartition(".")[2]
    pages = (REPOSITORY / "docs" / "api").glob(f"{name}*.md")
    text = "\n".join(page.read_text() for page in pages)
    lines = set(re.findall(r"^::: (\S+)$", text, re.M))
    if package.__name__ in lines:
        return  # the page shows whatever is public
    # Values have no docstring; the page speaks of them.
    named = [name for name in package.__all__ if callable(getattr(package, name))]
    assert {f"{package.__name__}.{name}" for name in named} == lines


def test_every_equation_has_a_row_in_the_readme():
    kinds = pde.AbstractEquation, pde.IncompressibleFlow
    equations = {
        name
        for name in pde.__all__
        if inspect.isclass(thing := getattr(pde, name))
        and issubclass(thing, kinds)
        and not inspect.isabstract(thing)
    }
    text = (REPOSITORY / "README.md").read_text()
    _, _, table = text.partition("[start:equations]")
    table, _, _ = table.partition("[end:equations]")
    assert set(re.findall(r"^\| `([A-Z]\w+)` \|", table, re.M)) == equations


def test_changelog_starts_with_this_version():
    headings = [
        line.removeprefix("## ").split()[0]
        for line in (REPOSITORY / "CHANGELOG.md").read_text().splitlines()
        if line.startswith("## ")
    ]
    assert headings[0] == diffsim.__version__


@for_each_file
def test_names_and_docstrings_follow_the_conventions(path):
    """Modules open with one sentence; nouns, no accessors, no inheritance by super."""
    tree = parsed(path)
    assert not {"utils", "helpers", "misc", "common"} & set(path.stem.split("_"))
    if tree.body:
        docstring = ast.get_docstring(tree) or ""
        assert docstring.splitlines()[:1], "a module docstring says what is in it"
        assert docstring.splitlines()[0][-1] in ".:;?"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            # `__get__` and `__set__` are Python's.
            name = node.name.removeprefix("_")
            assert not name.startswith(("get_", "set_")), node.name
        if isinstance(node, ast.ImportFrom):
            # Annotations would become strings, which the import hook cannot check.
            assert node.module != "__future__"
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = (ast.get_docstring(node) or " ").partition(" ")[0]
            assert first not in {"What", "Objects"}, "begin with a noun or a verb"
        assert not (isinstance(node, ast.Name) and node.id == "super")


#: Words that once had several meanings each, or none that a textbook knows: no function
#: and no class is called so.
RETIRED = re.compile(
    "adopted|alike|approximated|begun_by|completed|extended|fastest|fed|filled|"
    "fitted|framed|growth|heeded|hoisted|hushed|in_waves|judged|leg|limited|"
    "looked|made_once|march|objection|opened|outward|placed|planned|poisoned|"
    "prepared|projected|prolonged|quiet|read_off|restricted|sealed|solenoidal|"
    "spread|spreading|spreads|squared|stepped|taken|thrown|throws|told|turned|"
    "whole|worked_out"
)
#: As in American English.
BRITISH = re.compile(
    r"centre|colour|neighbour|behaviour|favour|[^t]isation|barycentric_"
)


@for_each_file
def test_no_name_is_given_twice_in_a_module(path):
    """The second constant would silently be that of the first one's readers as well."""
    names = [
        target.id
        for node in parsed(path).body
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name)
    ]
    assert len(names) == len(set(names))


def test_subjects_of_commits_name_a_component_and_say_what_is_done():
    objection = runpy.run_path(str(REPOSITORY / "tools" / "commit_subjects.py"))[
        "objection"
    ]
    assert objection("pde: Split Navier-Stokes by what its state is") is None
    assert objection("tests/pde: Address every boundary") is None
    assert "imperative" in objection("pde: Adds a boundary")
    assert "form" in objection("Add a boundary")
    assert "72" in objection(f"pde: Add {70 * 'a'}")


@for_each_file
def test_names_are_words_of_the_field(path):
    """Of modules and classes; what stands inside a function is its own business."""
    pending = list(parsed(path).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef):
            pending.extend(node.body)
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = node.name.strip("_")
            assert not RETIRED.fullmatch(name), f"{node.name}, line {node.lineno}"
            assert not BRITISH.search(name.lower()), f"{node.name}, line {node.lineno}"


@for_each_file
def test_no_function_returns_any(path):
    """A return of `Any` says nothing; `object` is whatever is only passed on."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            named = ast.unparse(node.returns).replace("typing.", "").split(" | ")
            assert "Any" not in named, f"{node.name}, line {node.lineno}"


@for_each_file
def test_pytrees_are_known_to_type_checkers(path):
    """Those of jaxtyping are not, and what holds one is not either."""
    if path == PACKAGE / "_types.py":
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "jaxtyping":
            assert "PyTree" not in {alias.name for alias in node.names}


@for_each_file
def test_what_prints_is_what_a_prompt_shows(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            methods = {x.name for x in node.body if isinstance(x, ast.FunctionDef)}
            assert "__str__" not in methods or "__repr__" in methods, node.name
