"""Traced functions: evaluated by a rule, compared, and explained where that fails."""

import contextlib
import contextvars
import hashlib
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._tracer_errors import explained_derivative_error, explained_tracer_error


#: Operations that JAX has traced, with their constants and without.
ClosedJaxpr = jax.extend.core.ClosedJaxpr  # pyright: ignore[reportPrivateImportUsage]
Jaxpr = jax.extend.core.Jaxpr  # pyright: ignore[reportPrivateImportUsage]


def is_traced(x: Any) -> bool:
    """Whether the value of `x` is unknown while Python runs."""
    return isinstance(x, jax.core.Tracer)


@contextlib.contextmanager
def explain_tracer_errors(name: str, function: Any = None) -> Iterator[None]:
    """Raise `ValueError` with the remedy where a call inside cannot be traced.

    **Arguments:** `name` of the argument that holds the `function`, whose own name is
    added if it is given and has one.
    """
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        explained = explained_tracer_error(error, name, function)
        if explained is None:
            raise
        raise explained from error


@contextlib.contextmanager
def explain_derivative_errors(
    name: str, function: Any = None, *, forward: str, reverse: str
) -> Iterator[None]:
    """Raise `ValueError` with the remedy where JAX cannot differentiate a function.

    JAX says so where it differentiates, which may be far from the call.

    **Arguments:** `name` and `function` as above; `forward`, `reverse`: what to say of
    a function that lacks this mode.
    """
    try:
        yield
    except (NotImplementedError, TypeError, ValueError) as error:
        explained = explained_derivative_error(
            error, name, function, forward=forward, reverse=reverse
        )
        if explained is None:
            raise
        raise explained from error


def evaluate(
    jaxpr: Any,
    inputs: Sequence[Any],
    rule: Callable[[Any, list[Any]], Sequence[Any]],
    constant: Callable[[Any, Any], Any] = lambda value, aval: value,
    consts: Sequence[Any] | None = None,
) -> list[Any]:
    """The outputs of a jaxpr, open or closed, equation by equation.

    **Arguments**

    - `inputs`: whatever `rule` takes.
    - `rule`: `rule(equation, inputs)`, the outputs of an equation; `bind` computes.
    - `constant`: `constant(value, aval)`, what it takes for literals and constants.
    - `consts`: what it takes for the constants instead.
    """
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    if consts is None:
        pairs = zip(getattr(jaxpr, "consts", ()), opened.constvars, strict=True)
        consts = [constant(value, variable.aval) for value, variable in pairs]
    values = dict(zip(opened.constvars, consts, strict=True))
    values.update(zip(opened.invars, inputs, strict=True))

    def read(atom):
        # Literals, which have a value, cannot be looked up in all releases.
        return constant(atom.val, atom.aval) if hasattr(atom, "val") else values[atom]

    for eqn in opened.eqns:
        outputs = rule(eqn, [read(atom) for atom in eqn.invars])
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in opened.outvars]


def bind(eqn: Any, values: Sequence[Any]) -> list[Array]:
    """The outputs of one equation for `values`."""
    params = eqn.primitive.get_bind_params(eqn.params)
    outputs = eqn.primitive.bind(*values, **params)
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


def run_jaxpr(
    jaxpr: Any, *inputs: Any, consts: Sequence[Any] | None = None
) -> list[Array]:
    """The outputs as arrays, with other `consts` than its own if they are given."""
    consts = jaxpr.consts if consts is None else consts
    outputs = jax.core.eval_jaxpr(getattr(jaxpr, "jaxpr", jaxpr), consts, *inputs)
    # JAX returns an output that depends on no input as a number of Python's.
    return list(map(jnp.asarray, outputs))


def closure_convert(
    function: Callable[..., Any], *examples: Any
) -> tuple[Callable[..., Any], list[Array]]:
    """`function` as `new(consts, *arguments)`, and every array that it closes over.

    Integers and keys among them, which `jax.closure_convert` leaves where they are.
    """
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*examples)
    structure = jax.tree.structure(shape)

    def new(consts, *arguments):
        leaves = jax.tree.leaves(arguments)
        outputs = run_jaxpr(jaxpr, *leaves, consts=consts)
        return jax.tree.unflatten(structure, outputs)

    # An array of NumPy's is none that is traced, wherever this is called.
    with jax.ensure_compile_time_eval():
        consts = [
            const if isinstance(const, jax.Array) else jax.device_put(np.asarray(const))
            for const in jaxpr.consts
        ]
    return new, consts


class ClosureConverted(eqx.Module):
    """A function with the arrays that it closes over as leaves."""

    consts: list[Array]
    function: Callable[..., Any] = eqx.field(static=True)

    @classmethod
    def of(cls, function: Callable[..., Any], *examples: Any) -> "ClosureConverted":
        new, consts = closure_convert(function, *examples)
        return cls(consts, new)

    def __call__(self, *arguments):
        return self.function(self.consts, *arguments)


#: The name of functions that `fresh_jit` compiles.
COMPILED = "compiled_run"
#: Whether what these do is part of what a program is known by, for other processes.
in_full = contextvars.ContextVar("in_full", default=False)


class _Hashed:
    """A key whose hash is worked out once."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Any):
        self.key, self._hash = key, hash(key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Hashed):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(self.key)


class Program(_Hashed):
    """Operations of a traced function, without the numbers that it reads.

    Two are equal if they do the same to whatever numbers they are given, so that what
    was compiled for one serves the other. Operations that hold a Python function, as
    custom derivatives do, are the same if that function is.

    - `jaxpr`: the operations, open.
    - `about`: how inputs and outputs are arranged; hashable.
    - `numbers`: floats and arrays written into the function, in the order in which they
        occur. No part of the key.
    """

    __slots__ = ("about", "jaxpr", "numbers")

    def __init__(self, jaxpr: Any, about: Any):
        self.jaxpr, self.about = jaxpr, about
        self.numbers: list[Any] = []
        self.key = _key(jaxpr, numbers=self.numbers), about
        self._hash = hash(self.key)

    def __call__(self, consts: Sequence[Any], *inputs: Array) -> list[Any]:
        """The outputs; `consts` are arrays closed over, and `numbers` or others."""
        own = len(self.jaxpr.constvars)
        numbers = iter(consts[own:])

        def constant(value: Any, aval: Any) -> object:
            # No derivative in them is asked for: of x ** 2.5 in the power it is NaN.
            held = jax.lax.stop_gradient
            return held(next(numbers)) if _is_number(aval) else value

        outputs = evaluate(self.jaxpr, inputs, bind, constant, consts[:own])
        return list(map(jnp.asarray, outputs))


def _is_number(aval: Any) -> bool:
    """Whether a literal is a float or an array that was written, and may change."""
    if aval.shape:
        return True
    # JAX makes weak numbers of its own default type alone.
    own = not aval.weak_type or aval.dtype == jnp.result_type(float)
    return own and jnp.issubdtype(aval.dtype, jnp.floating)


def _key(
    jaxpr: Any, depth: int = 0, numbers: list[Any] | None = None
) -> tuple[Hashable, ...]:
    """Return what a jaxpr does as a hashable tree.

    With `numbers` the key does not know these, and they are listed there.
    """
    opened, places, equations = getattr(jaxpr, "jaxpr", jaxpr), itertools.count(), []

    def constant(value: Any, aval: Any) -> Hashable:
        if numbers is None or not _is_number(aval):
            known = value if is_traced(value) else np.asarray(value)
            return str(aval), _of_param(known)
        array = np.asarray(value, aval.dtype)
        # A weak number is one of Python's.
        numbers.append(float(array) if aval.weak_type else array[()])
        return str(aval)

    def rule(eqn: Any, inputs: list[Any]) -> list[int]:
        params = _of_params(eqn, depth)
        equations.append((eqn.primitive, tuple(inputs), params, len(eqn.outvars)))
        return [next(places) for _ in eqn.outvars]

    inputs = [next(places) for _ in opened.invars]
    # Numbers are written into the outermost jaxpr, whose constants are given.
    consts = None if numbers is None else [next(places) for _ in opened.constvars]
    outputs = evaluate(jaxpr, inputs, rule, constant, consts)
    kinds = tuple(str(v.aval) for v in (*opened.invars, *opened.constvars))
    return kinds, tuple(equations), tuple(outputs)


#: Operations with a rule are known by so many derivatives. Most rules call the function
#: whose derivative they are, and would have no end.
_DERIVATIVES = 2


def _of_params(eqn: Any, depth: int) -> Hashable:
    """Parameters of an operation; of one with a rule its derivatives."""
    params, rule = sorted(eqn.params.items()), None
    if eqn.params.get("name") == COMPILED and not in_full.get():
        # JAX traces it once, and its calls are known by their programs already.
        return Identity(eqn.params["jaxpr"])
    # `sealed` is the library's own: a function with the derivative that it was given.
    by_tangents = eqn.primitive.name.startswith(("custom_jvp_call", "sealed"))
    by_cotangents = eqn.primitive.name.startswith("custom_vjp_call")
    if by_tangents or by_cotangents:
        # Its rules are functions that JAX makes anew in every trace.
        params = [p for p in params if isinstance(p[1], int) or hasattr(p[1], "eqns")]
        if depth < _DERIVATIVES:
            rule = _of_rule(eqn, depth, by_tangents=by_tangents)
    return *((name, _of_param(x, depth)) for name, x in params), rule


def _of_rule(eqn: Any, depth: int, *, by_tangents: bool) -> Hashable:
    """The first derivative; by each input alone where there is none by all."""
    is_float = [_is_inexact(v.aval) for v in eqn.invars]
    alone = [
        [i == j for j in range(len(is_float))]
        for i, moves in enumerate(is_float)
        if moves
    ]
    rules: list[Hashable] = []
    for moving in [is_float, *alone]:
        try:
            derivative = _derivative(eqn, moving, by_tangents=by_tangents)
        except Exception as error:  # of whatever kind: there is none
            rules.append((type(error), str(error)))
            continue
        rules.append(_of_jaxpr(derivative, depth + 1))
        if moving is is_float:
            break
    return tuple(rules)


def _derivative(eqn: Any, moving: Sequence[bool], *, by_tangents: bool) -> object:
    """The first derivative of an operation by some inputs, as a closed jaxpr."""
    examples = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    floats, rest = eqx.partition(examples, list(moving))

    def derivative(floats, rest, directions):
        def function(floats):
            return bind(eqn, eqx.combine(floats, rest))

        if by_tangents:
            return jax.jvp(function, (floats,), (directions,))
        outputs, back = jax.vjp(function, floats)
        ones = [
            jnp.ones_like(x) if _is_inexact(x) else np.zeros(x.shape, jax.dtypes.float0)
            for x in outputs
        ]
        return outputs, back(ones)

    return jax.make_jaxpr(derivative)(floats, rest, floats)


def _is_inexact(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _of_param(value: Any, depth: int = 0) -> Hashable:
    """A parameter of an operation, with its type: 1, 1.0 and True are not the same."""
    if isinstance(value, tuple | list):
        return type(value), tuple(_of_param(x, depth) for x in value)
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return dict, tuple((key, _of_param(x, depth)) for key, x in items)
    if isinstance(value, set | frozenset):
        return type(value), tuple(
            sorted((_of_param(x, depth) for x in value), key=repr)
        )
    if isinstance(value, float | complex):
        return type(value), repr(value)
    if isinstance(value, np.ndarray | jax.Array) and not is_traced(value):
        array = np.asarray(value)
        content = hashlib.blake2b(array.tobytes(), digest_size=16).digest()
        return array.shape, str(array.dtype), content
    if hasattr(value, "eqns"):
        return _of_jaxpr(value, depth)
    try:
        hash(value)
    except TypeError:
        return Identity(value)
    return type(value), value


def _of_jaxpr(jaxpr: Any, depth: int) -> _Hashed:
    place = id(jaxpr), depth, in_full.get()
    kept = _INSIDE.get(place)
    if kept is None or kept[0] is not jaxpr:
        if len(_INSIDE) >= _MOST:
            _INSIDE.clear()
        kept = _INSIDE[place] = jaxpr, _Hashed(_key(jaxpr, depth))
    return kept[1]


#: Keys of jaxprs inside others. JAX keeps those of what it has traced, a simulation in
#: a prediction say, and what is long is read once.
_INSIDE: dict[tuple[int, int, bool], tuple[Any, _Hashed]] = {}
_MOST = 128


class Identity:
    """A value without an equality, equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return type(self.value).__name__
