"""Fingerprint of the code of a function or class."""

import builtins
import dis
import functools
import pathlib
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any


# What users install is known by its name: of its own globals some change as it runs.
_INSTALLED = ("site-packages", "dist-packages")
_HERE = pathlib.Path(__file__).parents[1]
_STANDARD = pathlib.Path(sysconfig.get_paths()["stdlib"])
# Beartype writes code around a function whose names are addresses.
_CHECKED = "<@beartype"
_ANNOTATIONS = ("__annotate__", "__annotate_func__")


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
