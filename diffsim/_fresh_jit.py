"""`jit` for functions that users write, which read what may have changed."""

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ._code import is_library
from ._fingerprint import fingerprint


_SIMPLE = (bool, int, float, complex, str, bytes, np.generic, np.dtype, jax.Array)
#: Part of the key by which JAX finds what it has compiled, here and in what is called.
_reading = jax.make_user_context(b"")
#: Digests of what users wrote, as tracing left it, with those that it was traced for.
_BEFORE_TRACING: dict[bytes, bytes] = {}
_MOST = 4096


def fresh_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit` that compiles anew where users' code reads other values.

    jit knows a function by its identity. A person who never wrote jit, and sets a
    global, an attribute or an entry of an array that `predict` reads, would be given
    the answer of before. What the functions and classes in the arguments close over is
    therefore part of the key; arrays in the arguments themselves are traced as ever.

    **Limits:** of what cannot be looked into, an open file or a lock, the type counts.
    """
    traces = []

    @functools.wraps(function)
    def traced(*args: Any, **options: Any) -> Any:
        traces.append(function)
        return function(*args, **options)

    compiled = eqx.filter_jit(traced)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        written = tuple(_written((args, options)))
        if not written:
            return compiled(*args, **options)
        before, known = _digests(written), len(traces)
        with _reading(b"".join(before)):
            found = compiled(*args, **options)
        if len(traces) > known:
            _note(written, before)
        del traces[known:]
        return found

    def lower(*args: Any) -> Any:
        with _reading(b"".join(_digests(tuple(_written(args))))):
            return compiled.lower(*args)

    call.lower = lower  # pyright: ignore
    return call


@contextlib.contextmanager
def reading(*tree: Any) -> Iterator[None]:
    """The same for all that is compiled inside, with one look at the code in `tree`."""
    written = tuple(_written(tree))
    before = _digests(written)
    with _reading(b"".join(before)):
        yield
    _note(written, before)


def _digests(written: tuple[Any, ...]) -> list[bytes]:
    return [_known(_digest(part)) for part in written]


def _known(digest: bytes) -> bytes:
    return _BEFORE_TRACING.get(digest, digest)


def _note(written: tuple[Any, ...], before: list[bytes]):
    """A list to which a function appends, say, is no reason to compile it anew."""
    for part, digest in zip(written, before, strict=True):
        after = _digest(part)
        if _known(after) != digest:
            if len(_BEFORE_TRACING) >= _MOST:
                _BEFORE_TRACING.clear()
            _BEFORE_TRACING[after] = digest


def _digest(part: Any) -> bytes:
    try:
        return fingerprint(part, traced=True)
    except ValueError:  # nested too deeply: as for jit, identity counts
        return b""


def _written(tree: Any) -> Iterator[Any]:
    """Functions in a pytree, and the objects and classes in it that a user wrote."""
    leaves, structure = jax.tree.flatten(tree)
    yield from _in_structure(structure)
    for leaf in leaves:
        if not isinstance(leaf, (*_SIMPLE, np.ndarray)) and _is_users(leaf):
            yield leaf


@functools.lru_cache(maxsize=256)
def _in_structure(structure: Any) -> tuple[Any, ...]:
    """Classes and static fields of the nodes that a user wrote."""
    found: list[Any] = []
    open_ = [structure]
    while open_:
        node = open_.pop()
        open_ += node.children()
        if (data := node.node_data()) is not None:
            found += _of_data(data)
    return tuple(found)


def _of_data(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _of_data(part)
    elif isinstance(thing, dict):
        yield from _of_data(list(thing.values()))
    elif not isinstance(thing, _SIMPLE) and thing is not None and _is_users(thing):
        yield thing


def _is_users(thing: Any) -> bool:
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
        return _is_users(thing.__wrapped__)
    return not is_library(type(thing).__module__ or "")
