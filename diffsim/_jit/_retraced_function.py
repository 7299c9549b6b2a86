"""Users' functions, traced in every call."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._trace_contexts import note, surrounded, surroundings
from .._types import PyTree
from ._fingerprint import Reading, compiled_inside
from ._traced_program import Identity, Program


#: So many signatures of one function are more than anybody's code calls it with.
_MOST = 64


class Signature(NamedTuple):
    """Arguments of a call: all of them but the numbers in the arrays.

    `inside`: which contexts it is called in, see `SURROUNDINGS`.
    """

    structure: Any
    arrays: tuple[tuple[tuple[int, ...], Any, bool], ...]
    static: "_Static"
    inside: tuple[bool, ...]

    def anywhere(self) -> "Signature":
        """The same in no context."""
        return self._replace(inside=())

    def is_handed_the_like(self, other: "Signature") -> bool:
        """Whether they differ in functions alone, which the same code has made."""
        return self._replace(static=other.static) == other and self.static.is_like(
            other.static
        )


class UnknownSignature(BaseException):
    """A retraced function was called as it has not been traced.

    No `Exception`, for it is nobody else's to catch.
    """

    def __init__(self, owner: "Owner", index: int, signature: Signature):
        self.owner, self.index, self.signature = owner, index, signature

    def learn(self) -> bool:
        """Note the signature for the next time; false where that did not help.

        A function that is handed a new one in every call has a new signature in each,
        and is not traced any more.
        """
        signatures = self.owner.signatures.setdefault(self.index, [])
        if self.signature in signatures:
            return False
        endless = len(signatures) >= _MOST
        if endless or any(map(self.signature.is_handed_the_like, signatures)):
            self.owner.untraced.add(self.index)
        signatures.append(self.signature)
        return True


#: Calls of functions that users wrote that are under way.
_under_way: contextvars.ContextVar[tuple["Owner", ...]] = contextvars.ContextVar(
    "under_way", default=()
)


class Owner:
    """The call whose functions are retraced, and the signatures that it knows.

    `untraced` are numbers of functions that cannot be, see `UnknownSignature.learn`.

    Equal to any at its depth, so that what was compiled in it is found again.
    """

    def __init__(self, signatures: dict[int, list[Signature]], untraced: set[int]):
        self.depth, self.signatures = len(_under_way.get()), signatures
        self.untraced = untraced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner) and self.depth == other.depth

    def __hash__(self) -> int:
        return self.depth

    def is_same(self, other: "Owner") -> bool:
        """Whether it is the same call, or one of the same kind."""
        return self.signatures is other.signatures

    def is_under_way(self) -> bool:
        return any(self.is_same(one) for one in _under_way.get())

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        token = _under_way.set((*_under_way.get(), self))
        try:
            yield
        finally:
            _under_way.reset(token)


class Raised:
    """The error of a function that could not be traced, to be raised again.

    Where it is called there is a sentence for it, or it is what was asked for.
    """

    numbers = ()

    def __init__(self, error: Exception):
        self.error, self._key = error, (type(error), str(error))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class Retraced(eqx.Module):
    """A user's function, traced for the signatures it is called with.

    Two that do the same with other numbers are the same to `jit`, for the numbers are
    leaves: what the function reads, tracers among it, and the floats written into it.

    - `owner`, `index`: whose it is and which, for a signature that it does not know.
    """

    consts: tuple[list[Any], ...]
    numbers: tuple[list[Any], ...]
    signatures: tuple[Signature, ...] = eqx.field(static=True)
    programs: tuple[Program | Raised, ...] = eqx.field(static=True)
    owner: Owner = eqx.field(static=True)
    index: int = eqx.field(static=True)
    _name: "_Name" = eqx.field(static=True)

    @property
    def __name__(self) -> str:
        return self._name.text

    @classmethod
    def of(
        cls,
        signatures: list[Signature],
        traces: list[tuple[Program | Raised, list[Any]]],
        owner: Owner,
        index: int,
        function: Callable,
    ) -> "Retraced":
        """A `function` as it was traced for each of the signatures."""
        programs = tuple(program for program, _ in traces)
        return cls(
            tuple(list(consts) for _, consts in traces),
            tuple([_as_leaf(x) for x in program.numbers] for program in programs),
            tuple(signatures),
            programs,
            owner,
            index,
            _Name(getattr(function, "__name__", type(function).__name__)),
        )

    def __call__(self, *args: Any, **options: Any) -> PyTree:
        signature, arrays = signature_of(args, options)
        i = self._place(signature)
        program = self.programs[i]
        if isinstance(program, Raised):
            raise program.error
        outputs = program(self.consts[i], self.numbers[i], *arrays)
        structure, static, notes = program.about
        note(notes)
        return eqx.combine(jax.tree.unflatten(structure, outputs), static.tree)

    def _place(self, signature: Signature) -> int:
        if signature in self.signatures:
            return self.signatures.index(signature)
        if not self.owner.is_under_way():
            # A rule of derivatives: it does what was done where that was traced.
            like = signature.anywhere()
            for i, one in enumerate(self.signatures):
                if one.anywhere() == like:
                    return i
        raise UnknownSignature(self.owner, self.index, signature)


class Beside(NamedTuple):
    """Functions that are retraced in one call, whose it is, and by number."""

    owner: Owner
    functions: Mapping[int, Callable]

    def key(self) -> tuple[Owner, tuple[tuple[int, Identity], ...]]:
        """Other functions have another, also where one has the address of another."""
        return self.owner, tuple((i, Identity(f)) for i, f in self.functions.items())

    def as_written(self, thing: Any) -> object:
        """Return what a user wrote where one of these functions stands retraced."""
        if not is_retraced(thing) or not self.owner.is_same(thing.owner):
            return thing
        return self.functions[thing.index]


def is_retraced(thing: Any) -> bool:
    return isinstance(thing, Retraced)


def signature_of(args: Any, options: Any) -> tuple[Signature, list[Array]]:
    """The signature of a call, and its arrays."""
    dynamic, static = eqx.partition((args, options), eqx.is_array)
    arrays, structure = jax.tree.flatten(dynamic)
    kinds = tuple((a.shape, a.dtype, jax.typeof(a).weak_type) for a in arrays)
    return Signature(structure, kinds, _Static(static), surroundings()), arrays


def traced(
    function: Callable, signature: Signature, beside: "Beside"
) -> tuple[Program | Raised, list[Any]]:
    """Trace a function as it is now: its program, and the arrays that it reads.

    What it raises, of whatever kind, is raised again where it is called.

    **Arguments**

    - `beside`: the functions that are retraced in the same call. Where it is handed one
        of them it is traced with what the user wrote, and does what that does.
    """
    try:
        return _traced(function, signature, beside)
    except Exception as error:
        return Raised(error), []


def _traced(
    function: Callable, signature: Signature, beside: "Beside"
) -> tuple[Program, list[Any]]:
    statics: list[Any] = []

    def flat(*arrays: Array) -> PyTree:
        dynamic = jax.tree.unflatten(signature.structure, arrays)
        given = eqx.combine(dynamic, signature.static.tree)
        args, options = jax.tree.map(beside.as_written, given, is_leaf=is_retraced)
        found, rest = eqx.partition(function(*args, **options), _is_output)
        statics.append(rest)
        return found

    examples = [
        jax.ShapeDtypeStruct(shape, dtype, weak_type=weak)
        for shape, dtype, weak in signature.arrays
    ]
    compiled = compiled_inside(function)
    with (
        # JAX keeps what it has traced of those, whatever they read.
        Reading(compiled).inside(),
        surrounded(signature.inside, anew=bool(compiled)) as notes,
    ):
        jaxpr, shapes = jax.make_jaxpr(flat, return_shape=True)(*examples)
    about = jax.tree.structure(shapes), _Static(statics[-1]), notes()
    return Program(jaxpr.jaxpr, about), jaxpr.consts


def _as_leaf(number: Any) -> Array | np.ndarray:
    """A number as an array, weak if it was a Python one."""
    return jnp.asarray(number) if type(number) is float else np.asarray(number)


def _is_output(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, float | complex)


class _Name:
    """A name for sentences, equal to any: a function under another is the same."""

    def __init__(self, text: str):
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Name)

    def __hash__(self) -> int:
        return 0


class _Static:
    """A pytree without arrays, hashable if all that it holds is."""

    __slots__ = ("_key", "tree")

    def __init__(self, tree: Any):
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree)
        self._key = structure, tuple((type(x), x) for x in leaves)

    def is_like(self, other: "_Static") -> bool:
        """Whether they are equal but for functions that the same code has made."""
        (structure, leaves), (others_structure, others) = self._key, other._key
        return structure == others_structure and all(
            one == of_other or _is_same_code(one[1], of_other[1])
            for one, of_other in zip(leaves, others, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _is_same_code(one: Any, other: Any) -> bool:
    """Whether both are Python functions or methods, made by the same lines."""
    code = getattr(one, "__code__", None)
    return code is not None and code is getattr(other, "__code__", None)
