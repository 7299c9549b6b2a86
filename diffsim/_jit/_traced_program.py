"""Traced programs, compared by their operations and not their constants."""

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array


class Program:
    """Operations of a traced function, without the numbers that it reads.

    Two are equal if they do the same to whatever numbers they are given, so that what
    was compiled for one serves the other. Operations that hold a Python function, as
    custom derivatives do, are the same if that function is.

    - `jaxpr`: the operations, open.
    - `about`: how inputs and outputs are arranged; hashable.
    - `numbers`: floats and arrays written into the function, in the order in which they
        occur. No part of what the program is known by.
    """

    __slots__ = ("_hash", "about", "jaxpr", "key", "numbers")

    def __init__(self, jaxpr: Any, about: Any):
        self.jaxpr, self.about = jaxpr, about
        self.numbers = [_value(atom) for atom in _literals(jaxpr) if _is_number(atom)]
        self.key = (_key(jaxpr, by_value=False), about)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __call__(
        self, consts: Sequence[Array], numbers: Sequence[Array], *inputs: Array
    ) -> list[Any]:
        """The outputs, with other numbers in the place of those that were written."""
        jaxpr, left = self.jaxpr, iter(numbers)
        known = dict(zip(jaxpr.constvars, consts, strict=True))
        known |= dict(zip(jaxpr.invars, inputs, strict=True))

        def read(atom: Any):
            if not _is_literal(atom):
                return known[atom]
            # No derivative in them is asked for: of x ** 2.5 in the power it is NaN.
            held = jax.lax.stop_gradient
            return held(next(left)) if _is_number(atom) else atom.val

        for eqn in jaxpr.eqns:
            outputs = bind(eqn, [read(atom) for atom in eqn.invars])
            known |= dict(zip(eqn.outvars, outputs, strict=True))
        return [jax.numpy.asarray(read(atom)) for atom in jaxpr.outvars]


def bind(eqn: Any, values: Sequence[Any]) -> list[Array]:
    """Evaluate one equation of a jaxpr at `values`."""
    found = eqn.primitive.get_bind_params(eqn.params)
    # Up to JAX 0.8 the functions among the parameters come apart.
    functions, params = found if isinstance(found, tuple) else ((), found)
    outputs = eqn.primitive.bind(*functions, *values, **params)
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


def _is_literal(atom: Any) -> bool:
    return hasattr(atom, "val")


def _is_number(atom: Any) -> bool:
    """Whether an atom is a float or an array that was written, and may change."""
    if not _is_literal(atom):
        return False
    if atom.aval.shape:
        return True
    # Of another type than JAX's own a weak number cannot be made again.
    own = not atom.aval.weak_type or atom.aval.dtype == jax.numpy.result_type(float)
    return own and jax.numpy.issubdtype(atom.aval.dtype, jax.numpy.floating)


def _value(atom: Any) -> float | np.generic | np.ndarray:
    """The number of a literal, weak if that is."""
    value = np.asarray(atom.val, atom.aval.dtype)
    return float(value) if atom.aval.weak_type else value[()]


def _literals(jaxpr: Any) -> list[Any]:
    """Its literals in the order in which they are read."""
    atoms = [atom for eqn in jaxpr.eqns for atom in eqn.invars]
    return [atom for atom in (*atoms, *jaxpr.outvars) if _is_literal(atom)]


def _key(jaxpr: Any, *, by_value: bool = True) -> tuple[Hashable, ...]:
    """Return what an open jaxpr does as a hashable tree."""
    places: dict[Any, int] = {}
    for variable in (*jaxpr.invars, *jaxpr.constvars):
        places[variable] = len(places)

    def known(atom: Any) -> Hashable:
        if not _is_literal(atom):
            return places[atom]
        kind = str(atom.aval)
        if not by_value and _is_number(atom):
            return kind
        return kind, np.asarray(atom.val).tobytes()

    equations = []
    for eqn in jaxpr.eqns:
        inputs = tuple(map(known, eqn.invars))
        for variable in eqn.outvars:
            places[variable] = len(places)
        params = tuple((name, _of_param(x)) for name, x in sorted(eqn.params.items()))
        equations.append((eqn.primitive, inputs, params, len(eqn.outvars)))
    kinds = tuple(str(v.aval) for v in (*jaxpr.invars, *jaxpr.constvars))
    return kinds, tuple(equations), tuple(map(known, jaxpr.outvars))


def _of_param(value: Any) -> Hashable:
    """A parameter of an operation, with its type: 1, 1.0 and True are not the same."""
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_of_param, value))
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return dict, tuple((key, _of_param(x)) for key, x in items)
    if isinstance(value, float | complex):
        return type(value), repr(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if hasattr(value, "eqns"):
        return _of_jaxpr(value)
    try:
        hash(value)
    except TypeError:
        return Identity(value)
    return type(value), value


def _of_jaxpr(inside: Any) -> "_Hashed":
    found = _INSIDE.get(id(inside))
    if found is None or found[0] is not inside:
        if len(_INSIDE) >= _MOST:
            _INSIDE.clear()
        consts = tuple(map(Identity, getattr(inside, "consts", ())))
        found = inside, _Hashed((_key(getattr(inside, "jaxpr", inside)), consts))
        _INSIDE[id(inside)] = found
    return found[1]


#: Keys of jaxprs inside others. JAX keeps those of what it has traced, a simulation in
#: a prediction say, and what is long is read once.
_INSIDE: dict[int, tuple[Any, Any]] = {}
_MOST = 1024


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


class Identity:
    """A value without an equality, equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
