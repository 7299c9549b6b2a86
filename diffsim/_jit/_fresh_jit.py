"""`jit` for functions that call users' code, which reads what may have changed."""

import contextlib
import contextvars
import functools
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jaxpr._tracing import COMPILED, Identity, Program
from .._types import PyTree
from .._validation import compile_time_eval
from ._placeholders import (
    Code,
    Extracted,
    Key,
    Placeholder,
    Scope,
    is_placeholder,
    restored,
    unwrapped,
)


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Surrounding(NamedTuple):
    """A context: whether this is inside it, a way in, and what it takes note of.

    - `state()`: None or False outside of it.
    - `enter(anew)`: enters it; what it gives is the list of its notes. `anew` says that
        nothing which was compiled in it before may be used.
    - `note(count)`: makes as many notes in the one in force.
    """

    state: Callable[[], object]
    enter: Callable[[bool], AbstractContextManager[Any]]
    note: Callable[[int], None] | None = None


#: All there are.
SURROUNDINGS: list[Surrounding] = []


def _traced_inside(
    contexts: tuple[bool, ...], trace: Callable[[], _Result]
) -> tuple[_Result, tuple[int, ...]]:
    """The result of `trace` in these contexts, and how many notes each has made."""

    def traced_once(*, anew: bool):
        with contextlib.ExitStack() as stack:
            entered = [
                stack.enter_context(context.enter(anew)) if is_inside else None
                for context, is_inside in zip(SURROUNDINGS, contexts, strict=True)
            ]
            traced = trace()
        return traced, tuple(len(notes or ()) for notes in entered)

    traced, notes = traced_once(anew=False)
    noting = zip(SURROUNDINGS, contexts, strict=True)
    if any(notes) or not any(inside and context.note for context, inside in noting):
        return traced, notes
    # JAX makes no notes of what it has traced before, in a compiled function.
    again, notes = traced_once(anew=True)
    return (again if any(notes) else traced), notes


class _Static:
    """A tree without arrays; hashable, and equal to itself alone if a leaf is not."""

    __slots__ = ("_key", "tree")

    def __init__(self, tree: Any):
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree)
        # 0.0 == -0.0, and of NaN nothing is the same.
        values = [repr(x) if isinstance(x, float | complex) else x for x in leaves]
        self._key: Hashable = structure, (*map(type, leaves), *values)
        try:
            hash(self._key)
        except TypeError:
            self._key = Identity(tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class Signature(NamedTuple):
    """The arguments of a call without the numbers in their arrays.

    `contexts`: which are in force, see `SURROUNDINGS`.
    """

    structure: Any
    arrays: tuple[tuple[tuple[int, ...], Any, bool], ...]
    static: _Static
    contexts: tuple[bool, ...]

    @classmethod
    def of(cls, args: Any, options: Any) -> "tuple[Signature, list[Array]]":
        """The signature of a call, and its arrays."""
        bare = _with_placeholders((args, options), Placeholder.bare)
        dynamic, static = eqx.partition(bare, eqx.is_array)
        arrays, structure = jax.tree.flatten(dynamic)
        kinds = tuple((a.shape, a.dtype, jax.typeof(a).weak_type) for a in arrays)
        states = (context.state() for context in SURROUNDINGS)
        contexts = tuple(state not in (None, False) for state in states)
        return cls(structure, kinds, _Static(static), contexts), arrays

    def examples(self) -> list[jax.ShapeDtypeStruct]:
        """The arrays without numbers."""
        return [
            jax.ShapeDtypeStruct(shape, dtype, weak_type=is_weak)
            for shape, dtype, is_weak in self.arrays
        ]

    def tree(self, arrays: Sequence[Any]) -> tuple[Any, Any]:
        """The arguments with these arrays."""
        return eqx.combine(jax.tree.unflatten(self.structure, arrays), self.static.tree)


class Call(NamedTuple):
    """A call of users' code; once it is traced with its `program`.

    That is None of an attribute which is not there.

    - `name`: of a method; with a dot before it, of an attribute; "" for a function.
    - `inner`: calls of the functions in the output.
    """

    name: str
    signature: Signature
    inner: "Calls"
    program: "Program | None" = None


#: For each function or class its calls.
Calls = tuple[tuple[Key, tuple[Call, ...]], ...]
#: The same while they are recorded.
Record = dict[Key, dict[tuple[str, Signature], Any]]


class Run:
    """A trace of a run. It equals itself alone, so that JAX's caches never mix two.

    - `is_repeatable`: whether all calls are such that another trace makes them, too.
    """

    def __init__(self):
        self.is_repeatable = True
        #: For each scope, what makes the functions and classes in it.
        self.makers: dict[Scope, Callable[[], Code]] = {}

    @contextlib.contextmanager
    def of(self, code: Code) -> Iterator[None]:
        """A context in which the run calls this code."""
        token = _code.set({**_code.get(), self: code})
        try:
            yield
        finally:
            _code.reset(token)

    def real(self, key: Key) -> PyTree:
        """The user's function or class."""
        scope, _ = key
        code = self.makers[scope]() if scope else _code.get()[self]
        return code[key]


_code: contextvars.ContextVar[Mapping[Run, Code]] = contextvars.ContextVar(
    "code",
    default={},  # noqa: B039
)


#: Whether a library's code is being traced, and not what it calls of a user's.
_is_inside_run = contextvars.ContextVar("is_inside_run", default=False)


@contextlib.contextmanager
def _inside_run(is_inside: bool = True) -> Iterator[None]:
    """A context in which a library's code is traced, or a user's."""
    token = _is_inside_run.set(is_inside)
    try:
        yield
    finally:
        _is_inside_run.reset(token)


class _Recorder:
    """Calls users' code as it is, and records how."""

    def __init__(self, run: Run, record: dict[tuple[str, Signature], Any]):
        self.run, self.record = run, record

    def call(self, callee: Placeholder, name: str, args: Any, options: Any) -> PyTree:
        call = name, Signature.of(args, options)[0]
        inner = self.record.setdefault(call, {})
        scope = _scope_of_output(callee.key, list(self.record).index(call))

        def real(key):
            # A function in the output of another call has no meaning outside of that.
            self.run.is_repeatable &= scope[: len(key[0])] == key[0]
            return self.run.real(key)

        args, options = restored((args, options), real)
        output = Extracted(_call(real(callee.key), name, args, options), scope=scope)
        self.run.makers[scope] = lambda: output.code
        tree = jax.tree.map(
            lambda x: jnp.asarray(x) if isinstance(x, float | complex) else x,
            output.tree,
            is_leaf=is_placeholder,
        )
        return _recorded(tree, inner, self.run)


def _recorded(tree: PyTree, record: Record, run: Run) -> PyTree:
    """`tree` whose placeholders record their calls."""

    def recorder(old):
        calls = record.setdefault(old.key, {})
        return Placeholder(None, old.key, _Recorder(run, calls))

    return _with_placeholders(tree, recorder)


def _calls_of(record: Record) -> Calls:
    """The calls in a record."""
    return tuple(
        (key, tuple(Call(*call, _calls_of(inner)) for call, inner in calls.items()))
        for key, calls in record.items()
        if calls
    )


class _Replayer:
    """Answers calls of users' code by programs.

    The `arrays` of a placeholder are those that the program of each call reads.
    """

    def __init__(self, run: Run, calls: tuple[Call, ...]):
        self.run, self.calls = run, calls

    def call(self, callee: Placeholder, name: str, args: Any, options: Any) -> PyTree:
        signature, arrays = Signature.of(args, options)

        def real_output():
            inputs = restored((args, options), self.run.real)
            return _call(self.run.real(callee.key), name, *inputs)

        same = [
            i
            for i, call in enumerate(self.calls)
            if (call.name, *call.signature[:3]) == (name, *signature[:3])
        ]
        if not same:
            self.run.is_repeatable = False
            return real_output()
        # JAX evaluates a rule of derivatives outside the contexts of the call.
        inside = [i for i in same if self.calls[i].signature == signature]
        i = (inside or same)[0]
        _, _, inner, program = self.calls[i]
        if program is None:
            raise AttributeError(name)
        structure, static, notes = program.about
        for context, count in zip(SURROUNDINGS, notes, strict=True):
            if count and context.note:
                context.note(count)
        outputs = program(callee.arrays[i], *arrays)
        outputs, inner_consts = jax.tree.unflatten(structure, outputs)
        scope = _scope_of_output(callee.key, i)
        self.run.makers[scope] = lambda: Extracted(real_output(), scope=scope).code
        tree = eqx.combine(outputs, static.tree)
        return _replayed(tree, inner, inner_consts, self.run)


def _replayed(tree: PyTree, calls: Calls, consts: Any, run: Run) -> PyTree:
    """`tree` whose placeholders replay these calls; see `Traces`."""
    programs = dict(calls)

    def replayer(old):
        answers = _Replayer(run, programs.get(old.key, ()))
        return Placeholder(consts.get(old.key), old.key, answers)

    return _with_placeholders(tree, replayer)


class Traces(NamedTuple):
    """Calls with programs, and what the programs read.

    - `consts`: for each function and call, the arrays that a program closes over, and
        the numbers that are written into it.
    - `code`: users' code in the arguments and in the outputs.
    """

    calls: Calls
    consts: dict[Key, list[list[Array]]]
    code: Code


def _traces_of(calls: Calls, code: Code) -> Traces:
    """Trace users' `code` as it is called; code in outputs is added to it."""
    answered, consts = [], {}
    for key, several in calls:
        traced = [_traced(key, i, call, code) for i, call in enumerate(several)]
        with_programs, consts[key] = zip(*traced, strict=True)
        answered.append((key, with_programs))
    return Traces(tuple(answered), consts, code)


def _traced(key: Key, i: int, call: Call, code: Code) -> tuple[Call, list[Any]]:
    """A call with its program, and what that reads."""
    name, signature, _, _ = call
    scope, about = _scope_of_output(key, i), []

    def flat(*arrays: Array) -> PyTree:
        args, options = restored(signature.tree(arrays), code.__getitem__)
        output = Extracted(_call(code[key], name, args, options), scope=scope)
        code.update(output.code)
        outputs, static = eqx.partition(
            output.tree, lambda x: eqx.is_array(x) or isinstance(x, float | complex)
        )
        inner = _traces_of(call.inner, code)
        about[:] = _Static(static), inner
        return outputs, inner.consts

    def trace():
        jaxpr, shapes = jax.make_jaxpr(flat, return_shape=True)(*signature.examples())
        return jaxpr, shapes, *about

    try:
        traced, notes = _traced_inside(signature.contexts, trace)
    except AttributeError:
        if not name.startswith("."):
            raise
        return call, []
    jaxpr, shapes, static, inner = traced
    program = Program(jaxpr.jaxpr, (jax.tree.structure(shapes), static, notes))
    answered = call._replace(inner=inner.calls, program=program)
    return answered, [*jaxpr.consts, *map(_as_leaf, program.numbers)]


def _as_leaf(number: Any) -> Array | np.ndarray:
    """A number as an array, weak if it was a Python one."""
    if type(number) is not float:
        return np.asarray(number)
    with compile_time_eval():
        return jnp.asarray(number)


def _scope_of_output(key: Key, call: int) -> Scope:
    scope, i = key
    return (*scope, i, call)


def _call(code: Any, name: str, args: Any, options: Any) -> object:
    """Call a function, or a method of `args[0]`, or read an attribute of it."""
    with _inside_run(False):
        if not name:
            return unwrapped(code)(*args, **options)
        owner, *args = args
        if name.startswith("."):
            return getattr(owner, name[1:])
        method = getattr(type(owner), name)
        if unwrapped(method) is not method:
            return unwrapped(method)(owner, *args, **options)
        return getattr(owner, name)(*args, **options)


def _with_placeholders(
    tree: PyTree, new: Callable[[Placeholder], Placeholder]
) -> PyTree:
    return jax.tree.map(
        lambda x: new(x) if is_placeholder(x) else x, tree, is_leaf=is_placeholder
    )


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
        extracted = Extracted((args, options), floats=floats)
        is_librarys = _is_inside_run.get() and not extracted.is_users
        if extracted.is_replayed or is_librarys:
            return self.function(*args, **options)
        if not extracted.code:
            return call(self.compiled, *args, **options)
        signature, arrays = Signature.of(*extracted.tree)
        if len(self.kinds) >= _MOST:
            self.kinds.clear()
        kind = self.kinds.setdefault(signature, _Kind())
        # An array that varies over a mesh has a type that no trace outside could have.
        varies = bool(jax.sharding.get_abstract_mesh().manual_axes)
        if varies or not (kind.is_repeatable and extracted.is_complete):
            return self._run_anew(call, args, options)
        if floats and kind.has_static_floats:
            return self._run(call, args, options, floats=False)
        try:
            traces = self._traces(kind, extracted.code, signature)
        except Exception:
            if not (floats and extracted.has_floats):
                raise
            # The code may ask for the value of a float, by math or in a branch.
            result = self._run(call, args, options, floats=False)
            kind.has_static_floats = True
            return result
        if traces is None:
            return self._run_anew(call, args, options)
        program, run = self._program(signature, traces.calls)
        with run.of(extracted.code):
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
                traces = _traces_once(calls, code)
                if (signature, traces.calls) in self.programs:
                    return traces
        record, run = {}, Run()

        def record_calls(*arrays):
            args, options = _recorded(signature.tree(arrays), record, run)
            return self.function(*args, **options)

        with _inside_run(), run.of(code):
            eqx.filter_eval_shape(record_calls, *signature.examples())
        calls, kind.is_repeatable = _calls_of(record), False
        if run.is_repeatable:
            with contextlib.suppress(Exception):  # some code is called inside alone
                traces = _traces_once(calls, code)
                kind.calls[calls] = None
                kind.is_repeatable = True
                return traces
        return None

    def _program(self, signature: Signature, calls: Calls) -> tuple[Any, Run]:
        """The compiled program of these calls, and the trace that it was made by."""
        key, run = (signature, calls), Run()
        if key in self.programs:
            return self.programs[key]
        self._make_room()

        def replay(arrays, consts):
            args, options = _replayed(signature.tree(arrays), calls, consts, run)
            try:
                with _inside_run():
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


def _traces_once(calls: Calls, code: Code) -> Traces:
    """Traces of users' code; inside `reading`, of its code once."""
    remembered, earlier = _memory.get()
    key = calls, tuple(map(id, code.values()))
    is_read = remembered.keys() >= set(key[1])
    if is_read and key in earlier:
        return earlier[key]
    traces = _traces_of(calls, dict(code))
    if is_read:
        earlier[key] = traces
    return traces
