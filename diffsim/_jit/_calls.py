"""Calls of users' code in a run: recorded, traced and replayed."""

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._jaxpr._program import Identity, Program
from .._trace_contexts import note, surroundings, traced_inside
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


class Signature(NamedTuple):
    """The arguments of a call without the numbers in their arrays.

    `contexts`: which are in force, see `SURROUNDINGS`.
    """

    structure: Any
    arrays: tuple[tuple[tuple[int, ...], Any, bool], ...]
    static: "_Static"
    contexts: tuple[bool, ...]

    def examples(self) -> list[jax.ShapeDtypeStruct]:
        """The arrays without numbers."""
        return [
            jax.ShapeDtypeStruct(shape, dtype, weak_type=is_weak)
            for shape, dtype, is_weak in self.arrays
        ]

    def tree(self, arrays: Sequence[Any]) -> tuple[Any, Any]:
        """The arguments with these arrays."""
        return eqx.combine(jax.tree.unflatten(self.structure, arrays), self.static.tree)


def signature_of(args: Any, options: Any) -> tuple[Signature, list[Array]]:
    """The signature of a call, and its arrays."""
    bare = _with_placeholders((args, options), Placeholder.bare)
    dynamic, static = eqx.partition(bare, eqx.is_array)
    arrays, structure = jax.tree.flatten(dynamic)
    kinds = tuple((a.shape, a.dtype, jax.typeof(a).weak_type) for a in arrays)
    return Signature(structure, kinds, _Static(static), surroundings()), arrays


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
is_inside_run = contextvars.ContextVar("is_inside_run", default=False)


@contextlib.contextmanager
def inside_run(is_inside: bool = True) -> Iterator[None]:
    """A context in which a library's code is traced, or a user's."""
    token = is_inside_run.set(is_inside)
    try:
        yield
    finally:
        is_inside_run.reset(token)


class Recorder:
    """Calls users' code as it is, and records how."""

    def __init__(self, run: Run, record: dict[tuple[str, Signature], Any]):
        self.run, self.record = run, record

    def call(self, callee: Placeholder, name: str, args: Any, options: Any) -> PyTree:
        call = name, signature_of(args, options)[0]
        inner = self.record.setdefault(call, {})
        scope = _scope_of_output(callee.key, list(self.record).index(call))

        def real(key):
            # A function in the output of another call has no meaning outside of that.
            self.run.is_repeatable &= scope[: len(key[0])] == key[0]
            return self.run.real(key)

        args, options = restored((args, options), real)
        output = Extracted(_call(real(callee.key), name, args, options), scope=scope)
        self.run.makers[scope] = lambda: output.code
        tree = jax.tree.map(_as_array, output.tree, is_leaf=is_placeholder)
        return recorded(tree, inner, self.run)


def recorded(tree: PyTree, record: Record, run: Run) -> PyTree:
    """`tree` whose placeholders record their calls."""

    def recorder(old):
        return Placeholder(None, old.key, Recorder(run, record.setdefault(old.key, {})))

    return _with_placeholders(tree, recorder)


def calls_of(record: Record) -> Calls:
    """The calls in a record."""
    return tuple(
        (key, tuple(Call(*call, calls_of(inner)) for call, inner in calls.items()))
        for key, calls in record.items()
        if calls
    )


class Replayer:
    """Answers calls of users' code by programs.

    The `arrays` of a placeholder are those that the program of each call reads.
    """

    def __init__(self, run: Run, calls: tuple[Call, ...]):
        self.run, self.calls = run, calls

    def call(self, callee: Placeholder, name: str, args: Any, options: Any) -> PyTree:
        signature, arrays = signature_of(args, options)

        def real_output():
            inputs = restored((args, options), self.run.real)
            return _call(self.run.real(callee.key), name, *inputs)

        i = self._find(name, signature)
        if i is None:
            self.run.is_repeatable = False
            return real_output()
        _, _, inner, program = self.calls[i]
        if program is None:
            raise AttributeError(name)
        structure, static, notes = program.about
        note(notes)
        outputs = program(callee.arrays[i], *arrays)
        outputs, inner_consts = jax.tree.unflatten(structure, outputs)
        scope = _scope_of_output(callee.key, i)
        self.run.makers[scope] = lambda: Extracted(real_output(), scope=scope).code
        tree = eqx.combine(outputs, static.tree)
        return replayed(tree, inner, inner_consts, self.run)

    def _find(self, name: str, signature: Signature) -> int | None:
        same = [
            i
            for i, call in enumerate(self.calls)
            if (call.name, *call.signature[:3]) == (name, *signature[:3])
        ]
        # JAX evaluates a rule of derivatives outside the contexts of the call.
        inside = [i for i in same if self.calls[i].signature == signature]
        return next(iter(inside or same), None)


def replayed(tree: PyTree, calls: Calls, consts: Any, run: Run) -> PyTree:
    """`tree` whose placeholders replay these calls; see `Traces`."""
    known = dict(calls)

    def replayer(old):
        key = old.key
        return Placeholder(consts.get(key), key, Replayer(run, known.get(key, ())))

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


def traces_of(calls: Calls, code: Code) -> Traces:
    """Trace users' `code` as it is called; code in outputs is added to it."""
    done, consts = [], {}
    for key, several in calls:
        traced = [_traced(key, i, call, code) for i, call in enumerate(several)]
        programs, consts[key] = zip(*traced, strict=True)
        done.append((key, programs))
    return Traces(tuple(done), consts, code)


def _traced(key: Key, i: int, call: Call, code: Code) -> tuple[Call, list[Any]]:
    name, signature, _, _ = call
    scope, results = _scope_of_output(key, i), []

    def flat(*arrays: Array) -> PyTree:
        args, options = restored(signature.tree(arrays), code.__getitem__)
        output = Extracted(_call(code[key], name, args, options), scope=scope)
        code.update(output.code)
        outputs, static = eqx.partition(output.tree, _is_output)
        inner = traces_of(call.inner, code)
        results[:] = _Static(static), inner
        return outputs, inner.consts

    def trace():
        made = jax.make_jaxpr(flat, return_shape=True)(*signature.examples())
        return *made, *results

    try:
        traced, notes = traced_inside(signature.contexts, trace)
    except AttributeError:
        if not name.startswith("."):
            raise
        return call, []
    jaxpr, shapes, static, inner = traced
    program = Program(jaxpr.jaxpr, (jax.tree.structure(shapes), static, notes))
    answered = call._replace(inner=inner.calls, program=program)
    return answered, [*jaxpr.consts, *map(_as_leaf, program.numbers)]


def _scope_of_output(key: Key, call: int) -> Scope:
    scope, i = key
    return (*scope, i, call)


def _call(code: Any, name: str, args: Any, options: Any) -> object:
    """Call a function, or a method of `args[0]`, or read an attribute of it."""
    with inside_run(False):
        return _call_outside(code, name, args, options)


def _call_outside(code: Any, name: str, args: Any, options: Any) -> object:
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


def _as_leaf(number: Any) -> Array | np.ndarray:
    """A number as an array, weak if it was a Python one."""
    if type(number) is not float:
        return np.asarray(number)
    with compile_time_eval():
        return jnp.asarray(number)


def _is_output(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, float | complex)


def _as_array(x: Any) -> PyTree:
    return jnp.asarray(x) if isinstance(x, float | complex) else x


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
