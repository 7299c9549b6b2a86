"""Pytrees of modules from their description in a file."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._types import PyTree
from ._class_names import (
    NotHandedOver,
    is_data_class,
    is_enumeration,
    is_function,
    resolve_name,
)
from ._tree_description import Contents, EnumerationItem, Node, field_names


_Module = TypeVar("_Module")


def find_classes(names: list[Any], given: tuple[Any, ...]) -> list[Any]:
    """The classes and functions of these kinds and names.

    **Raises:** `ValueError` with a list of those that have to be handed over.
    """
    found: list[Any] = []
    missing: list[str] = []
    for kind, name in names:
        try:
            found.append(resolve_name(name, given))
        except NotHandedOver:
            missing.append(name)
            continue
        _check_kind(kind, name, found[-1])
    if missing:
        words = ", ".join(name.replace(":", ".") for name in missing)
        raise ValueError(
            f"it holds {', '.join(missing)}, and what is not diffsim's is found only "
            f"if handed over: load(path, classes=[{words}])"
        )
    return found


def rebuild(node: Node, contents: Contents) -> PyTree:
    """The tree that a node describes."""
    ((kind, given),) = node.items()
    if kind in _SCALARS:
        return _SCALARS[kind](given)
    return _BUILDERS[kind](given, contents)


def _check_kind(kind: str, name: str, thing: Any):
    if kind == "enumeration":
        fits, wanted = is_enumeration(thing), "an equinox.Enumeration"
    elif kind == "function":
        fits, wanted = is_function(thing), "a function"
    else:
        fits = is_data_class(thing) and not is_enumeration(thing)
        wanted = "an equinox.Module or a named tuple"
    if not fits:
        raise ValueError(f"{name} is not {wanted}")


def _float(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def _array(given: Any, contents: Contents) -> jax.Array | np.ndarray | np.generic:
    position, kind = given
    array = contents.arrays[position]
    if kind == "scalar":
        return array[()]
    return array if kind == "numpy" else _in_jax(array, kind == "weak")


def _in_jax(array: np.ndarray, weak: bool) -> jax.Array:
    found = jnp.asarray(array)
    if found.dtype != array.dtype:
        raise ValueError(
            f"it holds {array.dtype}, which JAX here would cast to {found.dtype}; call "
            'jax.config.update("jax_enable_x64", True) first'
        )
    if not weak:
        return found
    # Only JAX's default types are weak: what Python numbers become.
    zero = jnp.asarray(np.zeros((), array.dtype).item())
    like = jnp.broadcast_to(zero, array.shape)
    return like.at[...].set(found) if like.dtype == found.dtype else found


def _key(given: Any, contents: Contents) -> jax.Array:
    generator, position = given
    data = _in_jax(contents.arrays[position], weak=False)
    return jax.random.wrap_key_data(data, impl=generator)


def _dict(pairs: Any, contents: Contents) -> dict[Any, Any]:
    return {_dict_key(k): rebuild(x, contents) for k, x in pairs}


def _dict_key(node: Node) -> object:
    """A scalar: for the hash of a module Python would call its class."""
    ((kind, given),) = node.items()
    return _SCALARS[kind](given)


def _method(given: Any, contents: Contents) -> Callable[..., Any]:
    name, node = given
    owner = rebuild(node, contents)
    known = any(name in vars(cls) for cls in type(owner).__mro__)
    hidden = name.startswith("__") and name != "__call__"
    # Asked of the class, as a property would run when asked of the object.
    method = known and not hidden and callable(getattr(type(owner), name))
    if not isinstance(owner, eqx.Module) or not method:
        raise ValueError(f"{type(owner).__name__} has no method {name} here")
    return getattr(owner, name)


def _enumeration(given: Any, contents: Contents) -> object:
    """An item by its name: its number is that of the release that wrote the file."""
    position, items, node = given
    cls, value = contents.names[position], rebuild(node, contents)
    here = list(cls._name_to_item)
    if here != items:
        old = np.asarray(value)
        unknown = {items[i] for i in old.reshape(-1)} - set(here)
        if unknown:
            raise ValueError(f"it holds the outcome {min(unknown)}, not known here")
        numbers = [here.index(x) if x in here else -1 for x in items]
        new = np.asarray(numbers, old.dtype)[old]
        value = jnp.asarray(new) if isinstance(value, jax.Array) else new
    return _new(EnumerationItem, {"_value": value, "_enumeration": cls})


def _module(given: Any, contents: Contents) -> eqx.Module | tuple:
    position, nodes = given
    cls = contents.names[position]
    known = field_names(cls)
    if set(nodes) != set(known):
        changed = ", ".join(sorted(set(nodes) ^ set(known)))
        raise ValueError(
            f"{cls.__name__} has changed since the file was written: {changed}"
        )
    fields = {name: rebuild(node, contents) for name, node in nodes.items()}
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[name] for name in known])
    return _new(cls, fields)


def _new(cls: type[_Module], fields: dict[str, Any]) -> _Module:
    """A module with these very fields: no constructor may change them."""
    module = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    return module


_SCALARS = {
    "value": lambda value: value,
    "int": lambda digits: int(digits, 16),
    "float": _float,
    "complex": lambda pair: complex(*map(_float, pair)),
}
_BUILDERS = {
    "array": _array,
    "key": _key,
    "tuple": lambda nodes, contents: tuple(rebuild(x, contents) for x in nodes),
    "list": lambda nodes, contents: [rebuild(x, contents) for x in nodes],
    "dict": _dict,
    "function": lambda position, contents: contents.names[position],
    "method": _method,
    "enumeration": _enumeration,
    "module": _module,
}
