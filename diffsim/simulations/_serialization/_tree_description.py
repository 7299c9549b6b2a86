"""Pytrees of modules as JSON beside a list of arrays."""

import dataclasses
import struct
import types
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._results import RESULTS
from ..._validation import is_traced
from ._class_names import is_data_class, is_function, public_name


# A kind and what it needs: {"value": 3}, {"array": [0, "jax"]}.
Node = dict[str, Any]
EnumerationItem = type(RESULTS.successful)
_TAKEN = (
    "modules, tuples, named tuples, lists, dicts, arrays, numbers, strings, functions "
    "with a name and None"
)
# What JSON readers keep to the last digit.
_LARGEST_INTEGER = 2**63


@dataclasses.dataclass(frozen=True)
class Contents:
    """Tables that nodes refer to by position: arrays, classes and functions."""

    arrays: list[Any] = dataclasses.field(default_factory=list)
    names: list[Any] = dataclasses.field(default_factory=list)
    known: dict[Any, int] = dataclasses.field(default_factory=dict)

    def position_of(self, kind: str, thing: Any, where: str) -> int:
        """Where the name of a class or function is, entered if it is new."""
        key = (kind, id(thing))
        if key not in self.known:
            self.names.append([kind, public_name(thing, where)])
            self.known[key] = len(self.names) - 1
        return self.known[key]


def describe(tree: Any) -> tuple[Node, Contents]:
    """`tree` as JSON, in which arrays and names stand by their positions.

    **Raises:** `ValueError` naming what cannot be described.
    """
    contents = Contents()
    try:
        return _node(tree, "tree", contents), contents
    except RecursionError as error:
        raise ValueError(
            "tree is nested too deeply to be described, or holds itself; stack what "
            "repeats into arrays"
        ) from error


def dtype_name(dtype: np.dtype) -> str | None:
    """A text that NumPy makes the same type of; None for objects and structures."""
    if dtype.hasobject:
        return None
    # Float8 and int4 have no code of their own, and NumPy's types no name with bytes
    # in their order.
    return next((n for n in (dtype.str, dtype.name) if _is_named(dtype, n)), None)


def field_names(cls: type) -> tuple[str, ...]:
    """Describe a module or a named tuple."""
    if issubclass(cls, eqx.Module):
        return tuple(field.name for field in dataclasses.fields(cls))
    return getattr(cls, "_fields", ())


def is_bound_method(thing: Any) -> bool:
    """Whether it is a method of a module, which Equinox makes a module of its own."""
    if isinstance(thing, types.MethodType):
        return isinstance(thing.__self__, eqx.Module)
    names = field_names(type(thing)) if isinstance(thing, eqx.Module) else ()
    return set(names) == {"__func__", "__self__"}


def _is_named(dtype: np.dtype, name: str) -> bool:
    try:
        return np.dtype(name) == dtype
    except TypeError:
        return False


def _node(tree: Any, where: str, contents: Contents) -> Node:
    scalar = _scalar(tree)
    if scalar is not None:
        return scalar
    if isinstance(tree, jax.Array):
        return _jax_array(tree, where, contents)
    # Exact classes: a matrix or masked array, an OrderedDict or an IntEnum would come
    # back as something else.
    if type(tree) is np.ndarray or isinstance(tree, np.generic):
        kind = "numpy" if type(tree) is np.ndarray else "scalar"
        return {"array": [_position(tree, where, contents), kind]}
    if type(tree) in (tuple, list):
        items = [_node(x, f"{where}[{i}]", contents) for i, x in enumerate(tree)]
        return {type(tree).__name__: items}
    if type(tree) is dict:
        pairs = [
            [_key(k, where), _node(x, f"{where}[{_shown(k)}]", contents)]
            for k, x in tree.items()
        ]
        return {"dict": pairs}
    if isinstance(tree, EnumerationItem):
        return _enumeration(tree, where, contents)
    if is_bound_method(tree):
        return _method(tree, where, contents)
    if is_data_class(type(tree)):
        fields = {
            name: _node(getattr(tree, name), f"{where}.{name}", contents)
            for name in field_names(type(tree))
        }
        return {"module": [contents.position_of("module", type(tree), where), fields]}
    if is_function(tree):
        return {"function": contents.position_of("function", tree, where)}
    raise ValueError(
        f"{where} is a {type(tree).__name__}, which save cannot describe; it takes "
        f"{_TAKEN}"
    )


def _scalar(value: Any) -> Node | None:
    """A Python number, text or None, which JSON has or which is spelled by its bits."""
    if value is None or type(value) in (bool, str):
        return {"value": value}
    if type(value) is int:
        small = abs(value) < _LARGEST_INTEGER
        return {"value": value} if small else {"int": hex(value)}
    if type(value) is float:
        finite = np.isfinite(value)
        return {"value": value} if finite else {"float": _bits(value)}
    if type(value) is complex:
        return {"complex": [_bits(value.real), _bits(value.imag)]}
    return None


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def _key(key: Any, where: str) -> Node:
    scalar = None if key is None or type(key) is complex else _scalar(key)
    if scalar is None:
        raise ValueError(
            f"{where} has the key {key!r:.60}, a {type(key).__name__}; save takes text "
            "and Python numbers as keys"
        )
    return scalar


def _shown(key: Any) -> str:
    # Python refuses to print integers of thousands of digits.
    large = type(key) is int and abs(key) >= _LARGEST_INTEGER
    return hex(key) if large else repr(key)


def _position(array: Any, where: str, contents: Contents) -> int:
    array = np.asarray(array)
    text = array.dtype.kind in "SU" and not array.ndim  # NumPy drops its last zeros
    if dtype_name(array.dtype) is None or text:
        raise ValueError(
            f"{where} is an array of dtype {array.dtype}, which save cannot write; it "
            "takes arrays of numbers, booleans, times and text, of one type each"
        )
    contents.arrays.append(array)
    return len(contents.arrays) - 1


def _jax_array(array: jax.Array, where: str, contents: Contents) -> Node:
    if is_traced(array):
        raise ValueError(
            f"{where} is a traced array, whose numbers are not known under jit, vmap "
            "or grad; call save outside"
        )
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return _random_key(array, where, contents)
    kind = "weak" if array.weak_type else "jax"
    return {"array": [_position(array, where, contents), kind]}


def _random_key(key: jax.Array, where: str, contents: Contents) -> Node:
    generator = jax.random.key_impl(key)
    if not isinstance(generator, str):
        raise ValueError(
            f"{where} is a key of the random generator {generator}, which has no name "
            "to find it by; save jax.random.key_data(key)"
        )
    data = jax.random.key_data(key)
    return {"key": [generator, _position(data, where, contents)]}


def _enumeration(item: Any, where: str, contents: Contents) -> Node:
    """An outcome; with the names of all, for their numbers change between releases."""
    cls = item._enumeration
    value = _node(item._value, where, contents)
    position = contents.position_of("enumeration", cls, where)
    return {"enumeration": [position, list(cls._name_to_item), value]}


def _method(method: Any, where: str, contents: Contents) -> Node:
    owner, name = method.__self__, method.__func__.__name__
    if getattr(type(owner), name, None) is not method.__func__:
        raise ValueError(
            f"{where} is a method that {type(owner).__name__} does not have as {name}; "
            "save the module it belongs to"
        )
    return {"method": [name, _node(owner, where, contents)]}
