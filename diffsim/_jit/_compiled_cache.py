"""Reuse of compiled programs as long as users' code reads the same."""

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from ._fingerprint import fingerprint


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
