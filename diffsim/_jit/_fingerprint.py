"""Fingerprint of any object, the same in every process, as part of JAX's key."""

import contextlib
import contextvars
import copyreg
import dataclasses
import functools
import hashlib
import re
import struct
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np

from .._validation import is_traced
from ._user_code import class_parts, code_parts, function_parts


# What C makes of a function, which it keeps as `__wrapped__`.
_WRAPPERS = type(jax.jit(lambda: None)), type(functools.lru_cache(lambda: None))
_JAXPRS = jex.core.Jaxpr, jex.core.ClosedJaxpr  # pyright: ignore
_DIGEST = 32  # bytes


class TracedError(Exception):
    """Raised where something is traced, so that nobody knows its value."""


def fingerprint(thing: Any, *, traced: bool = False) -> bytes:
    """A digest of numbers, arrays, containers, modules, functions and classes.

    Equal for what the same script makes in another process, of the same version of
    Python; of what cannot be looked into, a lock or an open file, the type counts, and
    so it does of arrays that are `traced` if these are allowed.

    **Raises:** `TracedError` for traced arrays otherwise, `ValueError` for what is
    nested too deeply.
    """
    try:
        return _Walk(traced).digest(thing)
    except RecursionError as error:
        raise ValueError(
            f"checkpoint: a {type(thing).__name__} that the fit depends on is nested "
            "too deeply to be known again; leave out FitOptions(checkpoint=...)"
        ) from error


def compiled_inside(thing: Any) -> list[Any]:
    """Functions by `jax.jit` that a thing refers to: JAX does not trace them again."""
    found, open_, kept = [], [thing], {}
    while open_:
        part = open_.pop()
        if id(part) in kept or isinstance(part, (jax.Array, np.ndarray)):
            continue
        kept[id(part)] = part  # alive, or another could have its id
        if isinstance(part, _WRAPPERS):
            found.append(part)
        elif _simple(part) is None:
            open_.extend(_parts(part)[1])
    return found


class _Walk:
    """Digests by the way, so that nothing is read twice and cycles end."""

    def __init__(self, traced: bool):
        self.traced = traced
        self.known: dict[int, tuple[Any, bytes]] = {}
        self.open: set[int] = set()

    def digest(self, thing: Any) -> bytes:
        """Return the digest of `thing` and of all that it refers to."""
        simple = self._of_traced(thing) or _simple(thing)
        if simple is not None:
            return _joined(type(thing).__name__.encode(), *simple)
        key = id(thing)
        if key in self.known:
            return self.known[key][1]
        if key in self.open:
            return _joined(b"cycle", type(thing).__name__.encode())
        self.open.add(key)
        found = self._of_parts(thing)
        self.open.remove(key)
        # Kept alive, or another object could have its id.
        self.known[key] = thing, found
        return found

    def _of_traced(self, thing: Any) -> tuple[bytes, ...]:
        if not is_traced(thing):
            return ()
        if not self.traced:
            raise TracedError("a traced array has no value")
        return (b"traced",)

    def _of_parts(self, thing: Any) -> bytes:
        kind, parts, ordered = _parts(thing)
        digests = [self.digest(part) for part in parts]
        digests = digests if ordered else sorted(digests)
        return _joined(kind.encode(), *digests)


def _joined(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        found.update(struct.pack("<q", len(part)))
        found.update(part)
    return found.digest()


def _simple(thing: Any) -> tuple[bytes, ...] | None:
    """Return a thing without parts as bytes; None if it has parts."""
    if thing is None or thing is Ellipsis or type(thing) is bool:
        return (repr(thing).encode(),)
    if type(thing) is int:
        return (hex(thing).encode(),)
    if type(thing) is float:
        return (struct.pack("<d", thing),)
    if type(thing) is complex:
        return (struct.pack("<dd", thing.real, thing.imag),)
    if type(thing) is str:
        return (thing.encode("utf8", "surrogatepass"),)
    if type(thing) is bytes:
        return (thing,)
    if isinstance(thing, types.ModuleType):
        return (thing.__name__.encode(),)
    return None


_Parts = tuple[str, Iterable[Any], bool]


def _parts(thing: Any) -> _Parts:
    """Kind of `thing`, what it is made of, and whether the order of that counts."""
    for cls, parts in _BY_TYPE:
        if isinstance(thing, cls):
            return parts(thing)
    if type(thing) in (list, set, frozenset):
        return type(thing).__name__, thing, type(thing) is list
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = [field.name for field in dataclasses.fields(thing)]
        fields = [(name, getattr(thing, name, "missing")) for name in names]
        return "dataclass", [type(thing), *fields], True
    return _reduced(thing)


def _array(thing: Any) -> _Parts:
    if isinstance(thing, jax.Array):
        if jnp.issubdtype(thing.dtype, jax.dtypes.prng_key):
            key = str(jax.random.key_impl(thing)), jax.random.key_data(thing)
            return "key", key, True
        thing = np.asarray(thing)
    array, rest = np.asarray(thing), getattr(thing, "__dict__", None)
    shape = array.dtype.name, array.dtype.str, array.shape
    content = array.tolist() if array.dtype.hasobject else array.tobytes()
    return "array", [*shape, content, rest], True


def _tuple(thing: tuple) -> _Parts:
    return "tuple", [type(thing), *thing], True


def _partial(thing: Any) -> _Parts:
    return "partial", [thing.func, thing.args, thing.keywords], True


def _tree_structure(thing: Any) -> _Parts:
    return "structure", [thing.node_data(), thing.children()], True


def _jaxpr(thing: Any) -> _Parts:
    """As it is printed, without the addresses of the functions in it."""
    consts = getattr(thing, "consts", ())
    text = re.sub(r"0x[0-9a-f]+", "", str(thing))
    return "jaxpr", [text, consts], True


def _reduced(thing: Any) -> _Parts:
    """By what copies and pickles of it are made of."""
    reduce = copyreg.dispatch_table.get(type(thing))
    try:
        found = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
    except Exception:  # whatever a class raises that is not to be copied
        name = getattr(thing, "__name__", None)
        return "opaque", [type(thing), name, getattr(thing, "__dict__", None)], True
    if isinstance(found, str):
        return "name", [getattr(thing, "__module__", None), found], True
    make, args, *rest = found
    state, items, pairs = (*rest[:3], *[None] * (3 - len(rest[:3])))
    return "object", [make, args, state, list(items or ()), dict(pairs or ())], True


def _by(kind: str, parts: Callable[[Any], Iterable[Any]]) -> Callable[[Any], _Parts]:
    return lambda thing: (kind, parts(thing), True)


_BY_TYPE: tuple[tuple[Any, Callable[[Any], _Parts]], ...] = (
    ((jax.Array, np.ndarray, np.generic), _array),
    (tuple, _tuple),
    ((dict, types.MappingProxyType), lambda x: ("dict", list(x.items()), False)),
    (types.FunctionType, _by("function", function_parts)),
    (types.MethodType, _by("method", lambda x: (x.__func__, x.__self__))),
    (types.CodeType, _by("code", code_parts)),
    ((staticmethod, classmethod), _by("static", lambda x: (x.__func__,))),
    (property, _by("property", lambda x: (x.fget,))),
    (_WRAPPERS, _by("compiled", lambda x: (x.__wrapped__,))),
    (functools.partial, _partial),
    (type, _by("class", class_parts)),
    (jax.tree_util.PyTreeDef, _tree_structure),
    (_JAXPRS, _jaxpr),
)


#: Inside `looked_at`, what has been digested, by identity.
_memory: contextvars.ContextVar[dict[int, Any] | None] = contextvars.ContextVar(
    "memory", default=None
)
#: Part of the key by which JAX finds what it has compiled, here and in what is called.
_reading = jax.make_user_context(b"")
#: Digests of what users wrote, as tracing left it, with those that it was traced for.
_BEFORE_TRACING: dict[bytes, bytes] = {}
_MOST = 4096


class Reading:
    """Digests of what was written, which what is compiled `inside` is found by."""

    def __init__(self, written: Iterable[Any]):
        known = _memory.get() or {}
        self.written = tuple(part for part in written if id(part) not in known)
        self.before = [_known(_digest(part)) for part in self.written]

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """A context in which these digests are part of JAX's key."""
        with _reading(_reading.value + b"".join(self.before)):
            yield

    def note(self):
        """A list to which a function appends, say, is no reason to compile it anew."""
        for part, digest in zip(self.written, self.before, strict=True):
            after = _digest(part)
            if _known(after) != digest:
                if len(_BEFORE_TRACING) >= _MOST:
                    _BEFORE_TRACING.clear()
                _BEFORE_TRACING[after] = digest


@contextlib.contextmanager
def looked_at(*parts: Any) -> Iterator[None]:
    """A context in which these parts are read once, on the way in."""
    reading = Reading(parts)
    kept = dict(_memory.get() or {}) | {id(part): part for part in reading.written}
    token = _memory.set(kept)
    try:
        with reading.inside():
            yield
    finally:
        _memory.reset(token)
    reading.note()


def _known(digest: bytes) -> bytes:
    return _BEFORE_TRACING.get(digest, digest)


def _digest(part: Any) -> bytes:
    try:
        return fingerprint(part, traced=True)
    except ValueError:  # nested too deeply: as for jit, identity counts
        return b""
