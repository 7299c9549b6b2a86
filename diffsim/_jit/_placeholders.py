"""Placeholders for users' code in a tree of arguments."""

import dataclasses
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import PyTree


#: Packages whose functions and classes stay in the tree. All other code is a user's.
_LIBRARIES = frozenset(
    ["builtins", "diffrax", "diffsim", "equinox", "jax", "jaxlib", "jaxtyping"]
    + ["lineax", "numpy", "numpyro", "optax", "optimistix"]
)
_ARRAYS = jax.Array, np.ndarray
_VALUES = bool, int, float, complex, str, bytes, np.generic, np.dtype, type
_FUNCTIONS = types.FunctionType, types.MethodType, functools.partial
_COMPILED: Any = type(jax.jit(len)), type(eqx.filter_jit(len))
#: Fields of simulations and methods whose floats decide how a run is compiled.
_STATIC_FLOATS = frozenset(["t0", "step"])

#: Where a tree comes from: () for the arguments of a run; for the output of a call the
#: scope of the function, its number there, and the number of the call.
Scope = tuple[int, ...]
#: A user's function or class: a scope, and a number in it.
Key = tuple[Scope, int]
Code = dict[Key, Any]


class Placeholder(eqx.Module):
    """Stands for a user's function, or for the class of a user's module.

    - `arrays`: what the programs of its calls read, see `Replayer`.
    - `key`: which function or class; equal from call to call.
    - `caller`: what answers its calls; None in a tree that is compared.
    """

    arrays: Any
    key: Key = eqx.field(static=True)
    caller: Any = eqx.field(static=True)

    def __call__(self, *args: Any, **options: Any) -> PyTree:
        return self.caller.call(self, "", args, options)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or self.caller is None:
            raise AttributeError(name)
        return self.caller.call(self, f".{name}", (self,), {})

    @property
    def __name__(self) -> str:
        real = self.caller.run.real(self.key)
        return getattr(real, "__name__", type(real).__name__)

    def bare(self) -> "Placeholder":
        """The same to be compared."""
        return Placeholder(None, self.key, None)


_BoundMethod = type(Placeholder(None, ((), 0), None).bare)


def is_placeholder(x: Any) -> bool:
    return isinstance(x, Placeholder)


class _Delegate:
    """Base of classes that stand for a user's: the last field is a placeholder, which
    answers for methods and attributes."""


_DELEGATE = "users_class"


class _Node:
    """A callable pytree that is no module, without its children."""

    def __init__(self, structure: Any):
        self.structure = structure

    def __call__(self, children: list[Any], *args: Any, **options: Any) -> PyTree:
        return jax.tree.unflatten(self.structure, children)(*args, **options)


class _DelegateNode(_Delegate, eqx.Module):
    """Stands for a callable pytree."""

    children: list[Any]
    users_class: Placeholder

    def __call__(self, *args: Any, **options: Any) -> PyTree:
        return self.users_class(self.children, *args, **options)


class Extracted:
    """A tree with placeholders for users' code.

    A module of a user's class becomes one of its nearest library class.

    - `tree`, `code`: the tree, and what the placeholders stand for.
    - `is_complete`: whether no function had to stay in a static field of a library's
        module.
    - `is_replayed`: whether the tree had placeholders already.

    **Arguments**

    - `floats`: whether floats in fields that users declare become arrays.
    - `scope`: where the tree comes from.
    """

    def __init__(self, tree: PyTree, *, floats: bool = False, scope: Scope = ()):
        self._floats, self._scope = floats, scope
        self.code: Code = {}
        self.is_complete, self.is_replayed, self.has_floats = True, False, False
        self.tree = self._extract(tree)

    @property
    def is_users(self) -> bool:
        """Whether any of the code is a user's, and not a library's closure."""
        return not all(map(_is_library, self.code.values()))

    def _placeholder(self, code: Any) -> Placeholder:
        key = next((key for key, x in self.code.items() if x is code), None)
        if key is None:
            key = self._scope, len(self.code)
            self.code[key] = code
        return Placeholder(None, key, None)

    def _extract(self, x: Any, *, is_own_field: bool = False) -> PyTree:
        if is_own_field and type(x) is float:
            self.has_floats = True
            return jnp.asarray(x) if self._floats else x
        if isinstance(x, Placeholder | _Delegate):
            self.is_replayed = True
            return x
        if x is None or isinstance(x, (*_ARRAYS, *_VALUES)):
            return x
        x = unwrapped(x)
        if isinstance(x, _BoundMethod):
            return self._extract_method(x)
        if isinstance(x, eqx.Module):
            return self._extract_module(x)
        children, structure = _children(x)
        if jax.tree_util.treedef_is_leaf(structure):
            return x if _is_librarys_own(x) else self._placeholder(x)
        new = [self._extract(c, is_own_field=is_own_field) for c in children]
        if isinstance(x, jax.tree_util.Partial) or _is_called(type(x)):
            return _DelegateNode(new, self._placeholder(_Node(structure)))
        return _rebuilt(x, children, new, structure)

    def _extract_module(self, module: eqx.Module) -> eqx.Module:
        cls, new = type(module), {}
        is_users = not _is_library(cls)
        # Fields that a library declares it may read.
        readable: set[str] = set()
        for base in filter(_is_library, cls.__mro__) if is_users else ():
            readable.update(getattr(base, "__abstractvars__", ()))
            if dataclasses.is_dataclass(base):
                readable.update(field.name for field in dataclasses.fields(base))
        is_delegated = is_users and _is_called(cls)
        for field in dataclasses.fields(module):
            if field.name not in vars(module):
                continue  # the class has its default
            name, old = field.name, vars(module)[field.name]
            is_own = is_users and name not in readable
            if not field.metadata.get("static", False):
                is_own = is_own and name not in _STATIC_FLOATS
                new[name] = self._extract(old, is_own_field=is_own)
            elif is_own and (is_delegated or not isinstance(old, _VALUES)):
                # Only the user's code reads it, which is traced.
                new[name] = self._placeholder(old)
            elif Extracted(old).code:
                self.is_complete = False
        if not is_delegated:
            return _with_fields(module, new, cls)
        new[_DELEGATE] = self._placeholder(cls)
        return _with_fields(module, new, _delegate_class(cls))

    def _extract_method(self, method: Any) -> PyTree:
        owner = self._extract(method.__self__)
        name = method.__func__.__name__
        if isinstance(owner, _Delegate) and hasattr(type(owner), name):
            return getattr(owner, name)
        return _with_fields(method, {"__self__": owner}, _BoundMethod)


def restored(x: Any, real: Callable[[Key], Any]) -> PyTree:
    """A tree with users' code, `real(key)`, in place of placeholders."""
    if isinstance(x, Placeholder):
        return real(x.key)
    if x is None or isinstance(x, (*_ARRAYS, *_VALUES)):
        return x
    if isinstance(x, _BoundMethod):
        owner = restored(x.__self__, real)
        if isinstance(x.__self__, _Delegate):
            return getattr(owner, x.__func__.__name__)
        return _with_fields(x, {"__self__": owner}, _BoundMethod)
    if isinstance(x, _DelegateNode):
        children = [restored(child, real) for child in x.children]
        return jax.tree.unflatten(real(x.users_class.key).structure, children)
    if isinstance(x, eqx.Module):
        names = [f.name for f in dataclasses.fields(x) if f.name in vars(x)]
        new = {name: restored(vars(x)[name], real) for name in names}
        return _with_fields(x, new, new.pop(_DELEGATE, type(x)))
    children, structure = _children(x)
    if jax.tree_util.treedef_is_leaf(structure):
        return x
    return _rebuilt(x, children, [restored(c, real) for c in children], structure)


def flatten_as_written(tree: PyTree) -> tuple[list[Any], Callable[[list[Any]], PyTree]]:
    """The leaves that a user knows of `tree`, and what makes a tree of others."""
    paths, structure = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=is_placeholder
    )
    leaves = [x for _, x in paths]
    hidden = jax.tree_util.GetAttrKey(_DELEGATE)
    shown = [i for i, (path, _) in enumerate(paths) if hidden not in path]

    def unflatten(new: list[Any]) -> PyTree:
        every = leaves.copy()
        for i, x in zip(shown, new, strict=True):
            every[i] = x
        return jax.tree.unflatten(structure, every)

    return [leaves[i] for i in shown], unflatten


def unwrapped(function: Any) -> Callable[..., Any]:
    """A function without `jax.jit` around it, which would not trace it again."""
    while isinstance(function, _COMPILED):
        function = function.__wrapped__
    return function


def _delegate_class(cls: type) -> type:
    """A class with the fields of `cls` whose methods and attributes are calls."""
    bases: list[type] = []
    for base in cls.__mro__:
        if _is_library(base) and not any(issubclass(other, base) for other in bases):
            bases.append(base)
    fields: dict[str, tuple[bool, Any]] = {}
    for field in dataclasses.fields(cls):
        # An own `__init__` may leave a field to the default of the class.
        default = getattr(cls, field.name, None)
        default = default if isinstance(default, _VALUES) else None
        fields[field.name] = field.metadata.get("static", False), default
    is_method: dict[str, bool] = {}
    for base in reversed(cls.__mro__):
        for name, member in vars(base).items() if not _is_library(base) else ():
            if name == "__call__" or not (name.startswith("_") or name in fields):
                is_method[name] = isinstance(member, staticmethod | classmethod) or (
                    callable(member) and not isinstance(member, type)
                )
    content = tuple(fields.items()), tuple(sorted(is_method.items()))
    return _made_delegate_class(cls.__name__, tuple(bases), *content)


@functools.lru_cache(maxsize=256)
def _made_delegate_class(
    name: str, bases: tuple[type, ...], fields: Any, members: Any
) -> type:
    def delegated(name: str) -> Callable:
        def member(self, *args: Any, **options: Any) -> PyTree:
            placeholder = self.users_class
            return placeholder.caller.call(placeholder, name, (self, *args), options)

        member.__name__ = name
        return member

    content: dict[str, Any] = {
        name: eqx.field(static=is_static, default=default)
        for name, (is_static, default) in fields
    }
    content[_DELEGATE] = eqx.field(default=None)
    content["__annotations__"] = dict.fromkeys(content, Any)
    for member, is_method in members:
        content[member] = (
            delegated(member) if is_method else property(delegated(f".{member}"))
        )
    metaclass: Any = type(bases[0])
    return metaclass(name, (_Delegate, *bases), content)


def _with_fields(module: Any, new: dict[str, Any], cls: type) -> PyTree:
    """A module of `cls` with other fields; the same module if nothing changes."""
    old = vars(module)
    if cls is type(module) and all(old.get(name) is x for name, x in new.items()):
        return module
    made = object.__new__(cls)
    vars(made).update({name: x for name, x in old.items() if name != _DELEGATE} | new)
    return made


def _children(x: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(x, is_leaf=lambda y: y is not x)


def _rebuilt(x: Any, old: list[Any], new: list[Any], structure: Any) -> PyTree:
    same = all(map(operator.is_, old, new))
    return x if same else jax.tree.unflatten(structure, new)


def _is_library(code: Any) -> bool:
    module = getattr(code, "__module__", None) or type(code).__module__
    return module.partition(".")[0] in _LIBRARIES


def _is_librarys_own(x: Any) -> bool:
    """Whether a leaf is a library's, and holds nothing of a user's.

    A closure holds what the function that made it was given.
    """
    if not isinstance(x, _FUNCTIONS) and not hasattr(x, "__wrapped__"):
        return _is_library(type(x))
    if not _is_library(x):
        return False
    if isinstance(x, types.FunctionType) and not x.__closure__:
        return True
    owner: Any = sys.modules.get(x.__module__)
    for name in getattr(x, "__qualname__", "").split("."):
        owner = getattr(owner, name, None)
    return owner is x


def _is_called(cls: type) -> bool:
    """Whether a library may call instances of a user's class, or methods of them."""
    if _is_library(cls):
        return False
    own = next(base for base in cls.__mro__ if _is_library(base))
    called = {"__call__", "log_prob"}
    return own not in (eqx.Module, object, tuple, list, dict) or any(
        called & vars(base).keys() for base in cls.__mro__
    )
