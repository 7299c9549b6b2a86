"""`jit` for functions that call users' code, which reads what may have changed."""

import contextlib
import contextvars
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax

from .._jaxpr._program import COMPILED
from .._types import PyTree
from ._calls import (
    Calls,
    Run,
    Signature,
    Traces,
    calls_of,
    inside_run,
    is_inside_run,
    recorded,
    replayed,
    signature_of,
    traces_of,
)
from ._placeholders import Code, Extracted, restored


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

#: So many kinds of calls of a function are known, and so many of its programs kept.
_MOST = 128


def fresh_jit(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """`equinox.filter_jit` that follows what users' code reads.

    JAX's jit knows a function by its identity: where it reads a global, an attribute or
    an entry of an array that has changed, the result is that of before. Here users'
    code is traced in every call: functions among the arguments, and methods and
    attributes of modules of users' classes, for the arguments with which `function`
    calls them. The compiled program is found by these traces. Arrays that they read and
    floats that are written into them are inputs, so that others compile nothing; so are
    floats in fields of users' modules, unless users' code asks for their values.

    Nothing is remembered of users' code: no identity, no digest.

    **Limits:** JAX itself remembers some functions inside a user's function, see
    docs/concepts.md. Where users' code is handed a function that is made in the run, or
    stands in a static field of a library's module, every call compiles anew.
    """
    return cast(Any, _FreshJit(function))


@contextlib.contextmanager
def reading(*tree: Any) -> Iterator[None]:
    """A context in which the code in `tree` is traced once.

    No other code: functions that a prediction makes may read something else next time.
    """
    code = {id(x): x for x in Extracted(tree).code.values()}
    token = _memory.set((code, {}))
    try:
        yield
    finally:
        _memory.reset(token)


#: Inside `reading`, its code, and what has been traced.
_memory: contextvars.ContextVar[tuple[Any, dict[Any, Traces]]] = contextvars.ContextVar(
    "memory",
    default=({}, {}),
)


class _Kind:
    """Calls that differ in numbers and in users' code alone.

    - `calls`: all ways in which users' code was called.
    """

    def __init__(self):
        self.calls: dict[Calls, None] = {}
        self.is_repeatable, self.has_static_floats = True, False


class _FreshJit:
    """A function, and what was compiled of it."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function, self.compiled = function, eqx.filter_jit(function)
        self.kinds: dict[Signature, _Kind] = {}
        self.programs: dict[Any, tuple[Any, Run]] = {}
        self.compilations = 0

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., object]:
        """A method of `instance`, where one is decorated."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **options: Any) -> PyTree:
        return self._run(operator.call, args, options, floats=True)

    def lower(self, *args: Any) -> object:
        """As `jax.jit(function).lower`."""
        return self._run(lambda f, *args: f.lower(*args), args, {}, floats=True)

    def _run(self, call: Any, args: Any, options: Any, *, floats: bool) -> PyTree:
        given = Extracted((args, options), floats=floats)
        if given.is_replayed or (is_inside_run.get() and not given.is_users):
            return self.function(*args, **options)
        if not given.code:
            return call(self.compiled, *args, **options)
        signature, arrays = signature_of(*given.tree)
        if len(self.kinds) >= _MOST:
            self.kinds.clear()
        kind = self.kinds.setdefault(signature, _Kind())
        # What varies over a mesh has a type that no trace outside could have.
        varies = bool(jax.sharding.get_abstract_mesh().manual_axes)
        if varies or not (kind.is_repeatable and given.is_complete):
            return self._run_anew(call, args, options)
        if floats and kind.has_static_floats:
            return self._run(call, args, options, floats=False)
        try:
            traces = self._traces(kind, given.code, signature)
        except Exception:
            if not (floats and given.has_floats):
                raise
            # The code may ask for the value of a float, by math or in a branch.
            result = self._run(call, args, options, floats=False)
            kind.has_static_floats = True
            return result
        if traces is None:
            return self._run_anew(call, args, options)
        program, run = self._program(signature, traces.calls)
        with run.of(given.code):
            result = call(program, arrays, traces.consts)
        if not run.is_repeatable:
            kind.is_repeatable = False
        return restored(result, traces.code.__getitem__)

    def _run_anew(self, call: Any, args: Any, options: Any) -> PyTree:
        """Trace and compile all."""
        self._make_room()
        compiled = eqx.filter_jit(
            lambda *args, **options: self.function(*args, **options)
        )
        return call(compiled, *args, **options)

    def _traces(self, kind: _Kind, code: Code, signature: Signature) -> Traces | None:
        """Users' code as it is now, traced as the run calls it."""
        for calls in reversed(list(kind.calls)):
            with contextlib.suppress(Exception):  # recording raises it in its place
                traces = _traced(calls, code)
                if (signature, traces.calls) in self.programs:
                    return traces
        record, run = {}, Run()

        def record_calls(*arrays):
            args, options = recorded(signature.tree(arrays), record, run)
            return self.function(*args, **options)

        with inside_run(), run.of(code):
            eqx.filter_eval_shape(record_calls, *signature.examples())
        calls, kind.is_repeatable = calls_of(record), False
        if run.is_repeatable:
            with contextlib.suppress(Exception):  # some code is called inside alone
                traces = _traced(calls, code)
                kind.calls[calls] = None
                kind.is_repeatable = True
                return traces
        return None

    def _program(self, signature: Signature, calls: Calls) -> tuple[Any, Run]:
        """The compiled program of these calls, and the trace that it was made by."""
        key, run = (signature, calls), Run()
        known = self.programs.get(key)
        if known is not None:
            return known
        self._make_room()

        def replay(arrays, consts):
            args, options = replayed(signature.tree(arrays), calls, consts, run)
            try:
                with inside_run():
                    return self.function(*args, **options)
            finally:
                run.makers.clear()

        replay.__name__ = COMPILED
        return self.programs.setdefault(key, (eqx.filter_jit(replay), run))

    def _make_room(self):
        """Forget all programs if there are too many; JAX would keep them for good."""
        self.compilations += 1
        if self.compilations > _MOST:
            self.compilations = 1
            self.programs.clear()
            jax.clear_caches()


def _traced(calls: Calls, code: Code) -> Traces:
    """Traces of users' code; inside `reading`, of its code once."""
    remembered, known = _memory.get()
    key = calls, tuple(map(id, code.values()))
    is_read = remembered.keys() >= set(key[1])
    if is_read and key in known:
        return known[key]
    traces = traces_of(calls, dict(code))
    if is_read:
        known[key] = traces
    return traces
