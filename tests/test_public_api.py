"""Every public name is exported, documented, and keeps its docstring's format."""

import importlib
import inspect
import re
import subprocess
import sys
import types

import equinox as eqx
import pytest
from rows import for_each

import diffsim as ds
from diffsim import integrators, nbody


_PACKAGES = [
    importlib.import_module(f"diffsim.{name}")
    for name in (
        "implicit",
        "simulations",
        "integrators",
        "nbody",
        "pde",
        "inference",
        "sweeps",
        "verify",
        "plots",
        "problems",
        "cli",
    )
]
#: What the contract promises at the top; more may join, none may leave.
_TOP = (
    "AbstractSimulation",
    "Free",
    "Method",
    "RESULTS",
    "Trajectory",
    "cite",
    "configure",
    "fisher",
    "fit",
    "load",
    "save",
    "simulate",
    "sweep",
)
_PUBLIC = [
    getattr(package, name)
    for package in _PACKAGES
    for name in package.__all__
    if callable(getattr(package, name))
] + [ds.configure]
for_each_public = for_each(_PUBLIC, lambda thing: thing.__qualname__)


def sections(thing):
    """The docstring, cut at its bold headings."""
    found = re.split(
        r"^\s*\*\*([A-Z][A-Za-z ]*):?\*\*:?", inspect.getdoc(thing) or "", flags=re.M
    )
    return dict(zip(["", *found[1::2]], found[::2], strict=True))


def explained(text):
    """Names that appear in backticks: `name`, `a`, `b`, or in code such as `f(x)`."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))


def public_members(package):
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda p: p.__name__[8:])
def test_dunder_all_lists_every_public_member(package):
    assert len(set(package.__all__)) == len(package.__all__)
    assert set(package.__all__) == public_members(package)


def test_top_level_exports_the_promised_names():
    for name in _TOP:
        assert name in dir(ds)
        assert getattr(ds, name).__name__ == name
    for package in _PACKAGES:
        assert getattr(ds, package.__name__[8:]) is package
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        ds.simulat  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_library_does_not_load_lazy_packages():
    code = "import diffsim, sys; print(*(m for m in sys.modules if 'diffsim.' in m))"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    loaded = {name.split(".")[1] for name in loaded.split()}
    assert "nbody" in loaded
    later = ("pde", "inference", "sweeps", "verify", "plots", "problems", "cli")
    assert not loaded & set(later)


@for_each_public
def test_docstring_starts_with_a_sentence(thing):
    docstring = thing.__doc__
    assert docstring and docstring is not type(thing).__doc__
    first = inspect.cleandoc(docstring).partition("\n\n")[0]
    assert first[0].isupper() or first[0] in "`$σχ"
    assert first.endswith((".", ":")), "a sentence, or what an equation completes"


@for_each_public
def test_every_argument_of_a_function_is_explained(thing):
    if inspect.isclass(thing):
        return
    parameters = inspect.signature(thing).parameters
    assert set(parameters) <= explained(inspect.getdoc(thing) or "")


@for_each_public
def test_docstring_of_a_class_explains_every_constructor_argument(thing):
    found = sections(thing)
    if not inspect.isclass(thing) or not {"Arguments", "Fields"} & set(found):
        return
    parameters = inspect.signature(thing).parameters
    assert set(parameters) <= explained(inspect.getdoc(thing) or "")


@for_each_public
def test_limits_are_marked_mathematics_or_convenience(thing):
    limits = sections(thing).get("Limits")
    if limits is not None:
        assert re.search(r"mathematics|convenience|as `", limits), limits


@pytest.mark.parametrize("name", integrators.__all__)
def test_integrator_docstring_has_good_values_limits_and_references(name):
    solver = getattr(integrators, name)
    if name.startswith("Abstract"):
        return
    found = sections(solver)
    assert {"Good values", "Limits"} <= set(found)
    assert solver.references


@for_each_public
def test_references_are_digital_identifiers(thing):
    for key in getattr(thing, "references", ()):
        assert re.fullmatch(r"10\.\d{4,9}/\S+|arXiv:\d{4}\.\d{4,5}", key), key


@for_each_public
def test_classes_are_abstract_or_final(thing):
    if not inspect.isclass(thing) or not issubclass(thing, eqx.Module):
        return
    inherited = [
        base
        for base in thing.__mro__[1:]
        if base.__module__.startswith("diffsim.") and not base.__name__.startswith("_")
    ]
    # Abstract bases only, by name; RESULTS-like enumerations are no modules.
    assert all(base.__name__.startswith("Abstract") for base in inherited)
    assert inspect.isabstract(thing) <= thing.__name__.startswith("Abstract")


def test_cite_lists_each_reference_once():
    bodies = nbody.Bodies([1.0], [[0.0] * 3], [[0.0] * 3])
    system = nbody.NBody(bodies, [nbody.Gravity(), nbody.PostNewtonian(1.0)])
    lines = ds.cite(system, ds.Method(integrators.Yoshida4(), 0.1)).splitlines()
    assert lines == sorted(set(lines))
    assert any(line.startswith("Yoshida4: https://doi.org/10.1016/") for line in lines)
    assert any(line.startswith("PostNewtonian: https://doi.org/") for line in lines)
    assert ds.cite(bodies) == ""
