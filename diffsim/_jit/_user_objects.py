"""Functions, classes and floats of users among the arguments of a call."""

import dataclasses
import functools
import types
from collections.abc import Hashable, Iterator
from typing import Any

import jax
import numpy as np

from .._types import PyTree
from ._code_fingerprint import is_library


_SIMPLE = (bool, int, float, complex, str, bytes, np.generic, np.dtype, jax.Array)
#: Python numbers that decide how a run is compiled, whoever declares them.
_STATIC = frozenset(["t0", "step"])


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
    if isinstance(thing, types.FunctionType):
        # What a library returns, as jax.vmap does, closes over what it was given.
        return bool(thing.__closure__) or not is_library(thing.__module__ or "")
    if isinstance(thing, (types.BuiltinFunctionType, types.ModuleType)):
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
    if isinstance(thing, types.FunctionType):
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
