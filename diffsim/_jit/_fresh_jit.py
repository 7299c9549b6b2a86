"""`jit` for functions that users write, which read what may have changed."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from ._fingerprint import Reading, looked_at
from ._retraced_function import (
    Beside,
    Owner,
    Raised,
    Retraced,
    Signature,
    UnknownSignature,
    is_retraced,
    traced,
)
from ._traced_program import Program
from ._user_code import Written


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_MOST = 4096
#: Inside `reading`, for the identity of each of its functions, what has been traced.
_memory: contextvars.ContextVar[dict[int, dict[Any, Any]]] = contextvars.ContextVar(
    "memory"
)


def fresh_jit(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """`equinox.filter_jit` that follows what users' code reads.

    jit knows a function by its identity. A person who never wrote jit, and sets a
    global, an attribute or an entry of an array that `predict` reads, would be given
    the answer of before. So the functions among the arguments are traced in every call,
    as they are called inside, and known by their operations: other numbers in them,
    read or written, compile nothing. So do floats in fields of users' modules, where
    their code lets them be traced.

    Users' classes, and functions that hold Python functions, as those with derivatives
    of their own do, are known by digests of their code and of what it reads.

    **Limits:** what classes read of an open file or a lock is not looked into; numbers
    inside `lax.scan`, `lax.cond` and `jax.jit` in a user's function are part of what it
    does, and others compile anew.
    """
    return cast(Any, _FreshJit(function))


@contextlib.contextmanager
def reading(*tree: Any) -> Iterator[None]:
    """Inside, the code in `tree` is looked at once, and its functions traced once.

    No others: those that a prediction makes may read something else at the next call.
    """
    written = Written(tree)
    token = _memory.set({id(f): {} for f in written.functions.values()})
    try:
        with looked_at(*written.others):
            yield
    finally:
        _memory.reset(token)


class _Known:
    """Of one kind of call: how functions are called, and what they were found to do."""

    def __init__(self):
        self.signatures: dict[int, list[Signature]] = {}
        self.untraced: set[int] = set()
        self.programs: set[tuple[int, Signature, Program]] = set()
        self.has_static_floats = False


class _FreshJit:
    """A function with what is known of how it calls those among its arguments."""

    def __init__(self, function: Callable[..., _Result]):
        functools.update_wrapper(self, function)
        self.known: dict[Any, _Known] = {}
        self.begun = self.failed = 0

        @functools.wraps(function)
        def counted(*args: Any, **options: Any) -> _Result:
            self.begun += 1
            try:
                return function(*args, **options)
            except Exception:
                self.failed += 1
                raise

        self.compiled = eqx.filter_jit(counted)

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., object]:
        """A method of `instance`, where one is decorated."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **options: Any) -> object:
        return self._run(self.compiled, args, options)

    def lower(self, *args: Any) -> object:
        """As `jax.jit(function).lower`."""
        return self._run(self.compiled.lower, args, {})

    def _run(self, run: Callable[..., _Result], args: Any, options: Any) -> _Result:
        written = Written((args, options))
        if not written:
            return run(*args, **options)
        if not written.functions and not written.floats:
            return self._digested(run, written, {})
        if len(self.known) >= _MOST:
            self.known.clear()
        known = self.known.setdefault(written.kinds(), _Known())
        failed = self.failed
        if not written.floats or known.has_static_floats:
            return self._retraced(run, written, [], known)
        try:
            return self._retraced(run, written, written.floats, known)
        except Exception:
            # Of any kind: math, NumPy and a user's own checks raise different ones.
            if self.failed == failed:
                raise
        # Tracing came to an end, at a float perhaps that a user's code wants to know.
        found = self._retraced(run, written, [], known)
        known.has_static_floats = True
        return found

    def _retraced(
        self,
        run: Callable[..., _Result],
        written: Written,
        floats: list[int],
        known: _Known,
    ) -> _Result:
        """One call; begun again as long as functions are called in new ways."""
        owner = Owner(known.signatures, known.untraced)
        with owner.at_work():
            while True:
                try:
                    new = _functions(written, known, owner)
                    new |= {i: jnp.asarray(written.leaves[i]) for i in floats}
                    found = self._digested(run, written, new)
                    # What comes back holds what a user wrote, as what went in did.
                    given = Beside(owner, written.functions).as_written
                    return jax.tree.map(given, found, is_leaf=is_retraced)
                except UnknownSignature as unknown:
                    mine = unknown.owner.is_same(owner)
                    # What another call traced in here is traced anew, if it is over.
                    over = mine or not unknown.owner.is_under_way()
                    if not over or not unknown.learn():
                        raise
                    if not mine:
                        for traced_before in _memory.get({}).values():
                            traced_before.clear()

    def _digested(
        self, run: Callable[..., _Result], written: Written, new: dict[int, Any]
    ) -> _Result:
        """One call, which is found again by what was not traced, too."""
        args, options = written.replaced(new)
        left = [f for i, f in written.functions.items() if i not in new]
        reading, begun = Reading([*written.others, *left]), self.begun
        with reading.inside():
            found = run(*args, **options)
        if self.begun > begun:
            reading.note()
        return found


def _functions(written: Written, known: _Known, owner: Owner) -> dict[int, Retraced]:
    """Trace the functions that can be, by place among the leaves."""
    if jax.sharding.get_abstract_mesh().manual_axes:
        return {}  # what they are called with varies over a mesh, which is not traced
    found = {}
    for i, function in written.functions.items():
        if i in known.untraced:
            continue
        new = _as_traced(function, known, Beside(owner, written.functions), i)
        if new is not None:
            found[i] = new
    return found


def _as_traced(function: Any, known: _Known, beside: Beside, i: int) -> Retraced | None:
    """Trace a function as it is called; inside `reading`, once if it is in its tree."""
    signatures = known.signatures.get(i, [])
    memory = _memory.get({}).get(id(function), {})
    key = tuple(signatures), beside.key(), i
    if key not in memory:
        traces = [_stable_trace(s, known.programs, beside, i) for s in signatures]
        stable = [trace for trace in traces if trace is not None]
        memory[key] = stable if len(stable) == len(traces) else None
    if memory[key] is None:
        return None
    return Retraced.of(signatures, memory[key], beside.owner, i, function)


def _stable_trace(
    signature: Signature, programs: Any, beside: Beside, i: int
) -> tuple[Program | Raised, list[Any]] | None:
    """Trace a function; None if it is another program whenever it is traced."""
    found = traced(beside.functions[i], signature, beside)
    key = i, signature, found[0]
    if isinstance(found[0], Raised) or key in programs:
        return found
    if traced(beside.functions[i], signature, beside)[0] != found[0]:
        return None
    programs.add(key)
    return found
