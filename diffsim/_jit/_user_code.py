"""Code of users: which arguments are theirs, and what functions and classes read."""

import builtins
import dataclasses
import dis
import functools
import pathlib
import sys
import sysconfig
import types
from collections.abc import Hashable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from .._types import PyTree


_SIMPLE = (bool, int, float, complex, str, bytes, np.generic, np.dtype, jax.Array)
#: Python numbers that decide how a run is compiled, whoever declares them.
_STATIC = frozenset(["t0", "step"])
# What users install is known by its name: of its own globals some change as it runs.
_INSTALLED = ("site-packages", "dist-packages")
_HERE = pathlib.Path(__file__).parents[1]
_STANDARD = pathlib.Path(sysconfig.get_paths()["stdlib"])
# Beartype writes code around a function whose names are addresses.
_CHECKED = "<@beartype"
_ANNOTATIONS = ("__annotate__", "__annotate_func__")


class Written:
    """The leaves of a pytree, and which of them a user wrote.

    - `functions`: what a user calls a function, by place among the leaves.
    - `floats`: places of Python floats in fields of modules that a user declared.
    - `others`: everything else that may read what can change: classes, objects,
        functions of libraries that close over something.
    """

    def __init__(self, tree: Any):
        self.leaves, self.structure = jax.tree.flatten(tree)
        about = _about(self.structure)
        self.floats = [i for i in about.users if type(self.leaves[i]) is float]
        self.functions: dict[int, Any] = {}
        self.others = list(about.classes)
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, (*_SIMPLE, np.ndarray)):
                continue
            if _is_function(leaf):
                self.functions[i] = leaf
            elif may_change(leaf):
                self.others.append(leaf)

    def __bool__(self) -> bool:
        return bool(self.functions or self.others or self.floats)

    def kinds(self) -> tuple[Hashable, ...]:
        """All that decides how the functions are called, but for what they do."""
        open_ = {*self.functions, *self.floats}
        kinds = (
            None if i in open_ else _kind(leaf) for i, leaf in enumerate(self.leaves)
        )
        return self.structure, tuple(kinds), jax.config.jax_enable_x64  # pyright: ignore

    def replaced(self, new: dict[int, Any]) -> PyTree:
        """The tree with other leaves in some places."""
        leaves = [new.get(i, leaf) for i, leaf in enumerate(self.leaves)]
        return jax.tree.unflatten(self.structure, leaves)


def may_change(thing: Any) -> bool:
    """Whether a thing may read what a user can change."""
    if isinstance(thing, FunctionType):
        # What a library returns, as jax.vmap does, closes over what it was given.
        return bool(thing.__closure__) or not is_library(thing.__module__ or "")
    if isinstance(thing, (types.BuiltinFunctionType, ModuleType)):
        return False
    if isinstance(thing, type):
        return not is_library(thing.__module__ or "")
    if isinstance(thing, (types.MethodType, functools.partial)):
        return True
    if hasattr(thing, "__wrapped__"):  # jax.jit and functools.lru_cache
        return may_change(thing.__wrapped__)
    return not is_library(type(thing).__module__ or "")


def _is_function(thing: Any) -> bool:
    """Whether a thing is called, and is a user's or made of what is."""
    if isinstance(thing, type) or not callable(thing):
        return False
    if hasattr(thing, "__wrapped__"):  # of jax.vmap and jax.jit, too
        return _is_function(thing.__wrapped__)
    if isinstance(thing, functools.partial):
        return _is_function(thing.func)
    if isinstance(thing, types.MethodType):
        return not is_library(type(thing.__self__).__module__ or "")
    if isinstance(thing, FunctionType):
        return not is_library(thing.__module__ or "")
    return not is_library(type(thing).__module__ or "")


def _kind(leaf: Any) -> Hashable:
    if isinstance(leaf, jax.Array):
        return jax.typeof(leaf)
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.dtype
    return type(leaf), leaf


@dataclasses.dataclass(frozen=True)
class _About:
    """Of a structure: users' classes and static fields, and leaves in their fields."""

    classes: tuple[Any, ...]
    users: tuple[int, ...]


@functools.lru_cache(maxsize=256)
def _about(structure: Any) -> _About:
    classes: list[Any] = []
    owners: list[Any] = []

    def visit(node: Any, owner: Any):
        data = node.node_data()
        if data is None:
            owners.extend([owner] * node.num_leaves)
            return
        classes.extend(_of_data(data))
        owner = data[0] if dataclasses.is_dataclass(data[0]) else owner
        for child in node.children():
            visit(child, owner)

    visit(structure, None)
    places = range(structure.num_leaves)
    paths, _ = jax.tree_util.tree_flatten_with_path(
        jax.tree.unflatten(structure, places)
    )
    named = zip(places, owners, (path for path, _ in paths), strict=True)
    users = tuple(i for i, owner, path in named if _declares(owner, path))
    return _About(tuple(classes), users)


def _declares(owner: Any, path: tuple[Any, ...]) -> bool:
    """Whether the field at the end of a path is one that a user's class declares."""
    if owner is None or is_library(owner.__module__ or ""):
        return False
    names = [key.name for key in path if isinstance(key, jax.tree_util.GetAttrKey)]
    inherited = {
        field.name
        for base in owner.__mro__
        if dataclasses.is_dataclass(base) and is_library(base.__module__ or "")
        for field in dataclasses.fields(base)
    }
    return bool(names) and names[-1] not in inherited | _STATIC


def _of_data(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _of_data(part)
    elif isinstance(thing, dict):
        yield from _of_data(list(thing.values()))
    elif not isinstance(thing, _SIMPLE) and thing is not None and may_change(thing):
        yield thing


def function_parts(function: FunctionType) -> tuple[Any, ...]:
    """Its code, defaults, what it closes over and the globals it reads.

    Of libraries the name; of what they return, as `jax.vmap` does, what it closes over.
    """
    inner = getattr(function, "__wrapped__", None)
    if inner is not None and function.__code__.co_filename.startswith(_CHECKED):
        return ("checked", inner)
    code, closure = function.__code__, tuple(map(_content, function.__closure__ or ()))
    defaults = function.__defaults__, function.__kwdefaults__
    module = function.__globals__.get("__name__") or function.__module__ or ""
    if not is_library(module):
        name = function.__qualname__
        return name, code, defaults, closure, dict(_globals_of(function))
    if "<locals>" in code.co_qualname:
        return module, code.co_qualname, defaults, closure
    return module, code.co_qualname


def code_parts(code: CodeType) -> tuple[Any, ...]:
    """All but where it is written."""
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    # co_code is without the marks that Python makes in it as it runs.
    content = code.co_code, code.co_exceptiontable, code.co_flags
    return counts, names, content, code.co_consts


def class_parts(cls: type) -> tuple[Any, ...]:
    """Bases, methods and values of a user's class; of a library's the name."""
    if is_library(cls.__module__ or ""):
        return cls.__module__, cls.__qualname__
    members = {k: x for k, x in vars(cls).items() if _is_written(k, x)}
    return cls.__qualname__, cls.__bases__, members


@functools.lru_cache(maxsize=1024)
def is_library(module: str) -> bool:
    """Whether a module belongs to Python, to diffsim or to an installed package."""
    if module == "__main__":
        return False
    if module.partition(".")[0] in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    path = pathlib.Path(file)
    return any(name in path.parts for name in _INSTALLED) or _HERE in path.parents


def _is_written(name: str, member: Any) -> bool:
    """Whether a member of a class is code or a value, not what Python notes of it."""
    if isinstance(member, FunctionType):
        return name not in _ANNOTATIONS
    return not name.startswith(("__", "_abc_"))


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return "empty"


def _globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name in _imported_by(function.__code__):
        yield f"import {name}", _contents(name, function.__globals__.get("__package__"))
    for path in _read_by(function.__code__):
        first, *rest = path
        places = function.__globals__, vars(builtins)
        value = next((p[first] for p in places if first in p), "missing")
        yield first, value
        for step in rest:
            # Modules of users are known by what is used of them.
            if not isinstance(value, ModuleType) or is_library(value.__name__):
                break
            value = getattr(value, step, "missing")
            yield ".".join(path), value


def _contents(name: str, package: str | None) -> str | dict[str, Any]:
    """All that a user's module holds, for code that imports it where it runs.

    Which of it the code reads is not looked up; what has never been imported is empty.
    """
    names = [name, f"{package}.{name}".rstrip(".")] if package else [name]
    module = next((sys.modules[n] for n in names if n in sys.modules), None)
    if module is None or is_library(module.__name__):
        return name
    held = vars(module).items()
    return {k: x for k, x in held if k[:2] != "__" and not isinstance(x, ModuleType)}


@functools.lru_cache(maxsize=1024)
def _imported_by(code: CodeType) -> tuple[str, ...]:
    """Modules that the code, or code inside it, imports when it runs."""
    instructions = dis.get_instructions(code)
    found = {x.argval for x in instructions if x.opname == "IMPORT_NAME"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(_imported_by(constant))
    return tuple(sorted(found))


@functools.lru_cache(maxsize=1024)
def _read_by(code: CodeType) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(set(_paths_of(code))))


def _paths_of(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Globals that the code reads, with the attributes that it reads of them."""
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if path:
                yield path
            path = (instruction.argval,)
        elif path and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path = (*path, instruction.argval)
        elif instruction.opname not in ("PUSH_NULL", "CACHE", "EXTENDED_ARG"):
            if path:
                yield path
            path = ()
    if path:
        yield path
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _paths_of(constant)
