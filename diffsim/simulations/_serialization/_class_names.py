"""Public names of classes and functions in files, and the way back from them."""

import importlib
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import equinox as eqx
import jax.numpy as jnp


_LIBRARY = __name__.partition(".")[0]
_NUMPY = ("jax.numpy", "jax.numpy.linalg", "jax.numpy.fft")
_JAX = ("jax.nn", "jax.lax", "jax.random", "jax.scipy.special")
_SCRIPT = "__main__"


class NotHandedOver(Exception):
    """The name of a class or function that has to be handed over."""


def is_data_class(thing: Any) -> bool:
    """Whether files may hold it: a class of modules, named tuple or enumeration."""
    if not isinstance(thing, type):
        return False
    named = issubclass(thing, tuple) and hasattr(thing, "_fields")
    return named or issubclass(thing, eqx.Module) or is_enumeration(thing)


def is_enumeration(thing: Any) -> bool:
    """Whether `thing` is a class like `RESULTS`."""
    return isinstance(thing, type(eqx.Enumeration))


def is_function(thing: Any) -> bool:
    """Whether `thing` is a function, jitted ones and `jax.numpy.float32` included."""
    if isinstance(thing, (type, eqx.Module, ModuleType)):
        return isinstance(thing, type(jnp.float32))
    return callable(thing)


def public_name(thing: Any, where: str) -> str:
    """The name `package:name` of a class or function, without private modules.

    **Raises:** `ValueError` naming `where` unless the name leads back to `thing`.
    """
    name = _own_name(thing)
    if not name or "<" in name:
        raise ValueError(
            f"{where} is {name or type(thing).__name__}, which has no name to find it "
            "by; define it at the top level of a module"
        )
    package = next(_homes(thing), None)
    if package is None:
        raise ValueError(
            f"{where} is {_module_of(thing)}:{name}, and that name stands for "
            "something else or nothing; define it at the top level of a module, under "
            "its name"
        )
    return f"{package}:{name}"


def resolve_name(name: str, given: tuple[Any, ...]) -> object:
    """The class or function of that name: of diffsim, `jax.numpy`, the script or given.

    **Raises:** `NotHandedOver` if it has to be given, `ValueError` if it is not there.
    """
    package, _, path = name.partition(":")
    if package in _NUMPY or _is_ours(package):
        found = _lookup(package, path)
        if found is None:
            raise ValueError(f"{name} does not exist here; was it renamed?")
        return found
    found = _given_class(name, given)
    if found is None and package == _SCRIPT:
        found = _lookup(package, path)
    if found is None:
        raise NotHandedOver(name)
    return found


def checked_classes(given: Any) -> tuple[Any, ...]:
    """`classes` as a tuple; raises for what no file can name."""
    things = tuple(given) if isinstance(given, Iterable) else (given,)
    for thing in things:
        if not is_data_class(thing) and not is_function(thing):
            raise ValueError(
                "classes must hold Equinox modules and named tuples (the classes, not "
                f"objects of them) or functions, got {thing!r:.60}"
            )
    return things


def _own_name(thing: Any) -> str | None:
    # A ufunc of jax.numpy has its short name only.
    return getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)


def _module_of(thing: Any) -> str:
    return getattr(thing, "__module__", None) or ""


def _homes(thing: Any) -> Iterator[str]:
    """Packages in which `thing` stands under its own name, the most public first."""
    name = _own_name(thing) or ""
    places = sorted(
        _exporting_packages(_module_of(thing)),
        key=lambda place: not _exports(place, name),
    )
    for place in places:
        if _lookup(place, name) is thing:
            yield place


def _exporting_packages(module: str) -> Iterator[str]:
    """Packages that may export what `module` defines."""
    if _package_of(module) is not None:
        yield str(_package_of(module))
        yield from sorted(name for name in list(sys.modules) if _is_ours(name))
        return
    above = [module[:i] for i in range(len(module)) if module[i] == "."]
    if above and above[0] == "jax":
        yield from (*_NUMPY, *_JAX)
    yield from above
    yield module


def _given_class(name: str, given: tuple[Any, ...]) -> object:
    """Return what was handed over for `name`; imported scripts have another name."""
    package, _, path = name.partition(":")
    named = [thing for thing in given if _own_name(thing) == path]
    exact = [x for x in named if package in (*_homes(x), _module_of(x))]
    found = exact or [x for x in named if _SCRIPT in (package, _module_of(x))]
    if len({id(x) for x in found}) > 1:
        raise ValueError(f"classes holds several that may be {name}; hand over one")
    return found[0] if found else None


def _is_ours(package: str) -> bool:
    return _package_of(package) == package


def _package_of(module: str) -> str | None:
    """The public package that a module of diffsim belongs to; None for any other."""
    if not module.startswith(_LIBRARY):  # for speed: of thousands few are
        return None
    first, *rest = module.split(".")
    if first != _LIBRARY:
        return None
    return ".".join([first, *(x for x in rest[:1] if not x.startswith("_"))])


def _lookup(package: str, path: str) -> object:
    """The class or function that calls itself `path` and stands there in `package`."""
    first, *rest = path.split(".")
    # Whatever begins like this belongs to Python, not to the package.
    if any(step.startswith("__") and step != "__call__" for step in (first, *rest)):
        return None
    found = _member(package, first)
    for step in rest:
        # Through classes only: almost any module leads to every other one.
        inside = isinstance(found, type) and any(step in vars(x) for x in found.__mro__)
        found = getattr(found, step) if inside else None
    fits = is_data_class(found) or is_function(found)
    return found if fits and _own_name(found) == path else None


def _member(package: str, name: str) -> object:
    """Return what `package` defines or exports as `name`."""
    module = _imported(package)
    found = None if module is None else vars(module).get(name)
    if package == _SCRIPT:
        return found if _module_of(found) == _SCRIPT else None
    if not _is_ours(package):
        return found
    return found if _exports(package, name) else _private_member(package, name)


def _exports(package: str, name: str) -> bool:
    """Whether `package` makes `name` public; diffsim has no `__all__`."""
    module, first = sys.modules.get(package), name.partition(".")[0]
    found = vars(module).get(first) if module is not None else None
    home = _package_of(_module_of(found))
    return first in getattr(module, "__all__", (first,) if home is not None else ())


def _private_member(package: str, name: str) -> object:
    """Return the `name` of private modules of `package`; None if it is ambiguous."""
    inside = [m for key, m in list(sys.modules.items()) if _package_of(key) == package]
    found = {
        id(thing): thing
        for thing in (vars(module).get(name) for module in inside)
        if _package_of(_module_of(thing)) == package
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _imported(package: str) -> ModuleType | None:
    """The module; imported here only if it is ours."""
    if package not in sys.modules and _is_ours(package):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ValueError(f"{package} cannot be imported here: {error}") from error
    return sys.modules.get(package)
