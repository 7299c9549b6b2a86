"""`save` and `load`: pytrees of modules in one file, without pickle."""

import dataclasses
import importlib
import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


_FORMAT = 1


def save(path: str | os.PathLike, tree: Any):
    """Writes a simulation, trajectory, fit or any pytree of modules to `path`.

    The file is one line of JSON, which says what the tree is made of, and behind it the
    arrays as `equinox.tree_serialise_leaves` writes them. Values come back to the bit.
    The file appears whole or not at all.

    **Arguments**

    - `path`: where; by custom `name.eqx`.
    - `tree`: modules, tuples, named tuples, lists, dicts, arrays, numbers, strings,
        None.

    **Raises:** `ValueError` naming what cannot be described, a lambda for instance.
    """
    header = {"format": _FORMAT, "tree": _described(tree, "tree")}
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        eqx.tree_serialise_leaves(file, eqx.filter(tree, eqx.is_array_like))
    part.replace(path)


def load(path: str | os.PathLike) -> Any:
    """Reads what `save` wrote.

    Only `equinox.Module` and named-tuple classes are made, by importing the modules
    they were defined in: load files from people you would run code from. A class
    defined in a script is found if that script is running.

    **Arguments:** `path` of the file.

    **Raises:** `ValueError` if the file is not ours or not whole, if a class has
    changed its fields, or if it holds double precision that JAX here does not.
    """
    with Path(path).open("rb") as file:
        like = _like_of(file.readline(), path)
        arrays = eqx.filter(like, eqx.is_array_like)
        try:
            loaded = eqx.tree_deserialise_leaves(file, arrays)
        # Equinox wraps whatever NumPy raises about the bytes it finds.
        except RuntimeError as error:
            raise ValueError(
                f"{path} is not whole: its arrays end early or are not those that its "
                "first line names; copy or save it again"
            ) from error
        return eqx.combine(jax.tree.map(_as_before, arrays, loaded), like)


def _like_of(line: bytes, path: str | os.PathLike) -> Any:
    """The tree that the first line describes, zeros for arrays."""
    try:
        header = json.loads(line)
        version, described = header["format"], header["tree"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} was not written by diffsim.save") from error
    if version != _FORMAT:
        raise ValueError(f"{path} has format {version}, this diffsim reads {_FORMAT}")
    try:
        return _rebuilt(described)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} has a first line that describes no tree; it is damaged, or was "
            "not written by diffsim.save"
        ) from error


def _as_before(like: Any, leaf: Any) -> Any:
    numpy = isinstance(like, np.ndarray) and not isinstance(leaf, np.ndarray)
    return np.asarray(leaf) if numpy else leaf


def _described(node: Any, where: str) -> Any:
    """`node` as JSON; arrays by shape and dtype."""
    if node is None or isinstance(node, bool | int | float | str):
        return {"value": node}
    if eqx.is_array(node) or isinstance(node, np.ndarray | np.generic):
        kind = "jax" if isinstance(node, jax.Array) else "numpy"
        return {"array": [list(node.shape), str(node.dtype)], "kind": kind}
    # Exact classes: an OrderedDict, say, would come back as another structure.
    if type(node) in (tuple, list):
        items = [_described(x, f"{where}[{i}]") for i, x in enumerate(node)]
        return {type(node).__name__: items}
    if type(node) is dict:
        _check_keys(node, where)
        pairs = [[k, _described(x, f"{where}[{k!r}]")] for k, x in node.items()]
        return {"dict": pairs}
    names = _field_names(type(node))
    if names is not None:
        fields = {k: _described(getattr(node, k), f"{where}.{k}") for k in names}
        return {"module": _name(type(node), where), "fields": fields}
    if callable(node):
        return {"function": _name(node, where)}
    raise ValueError(
        f"{where} is a {type(node).__name__}, which save cannot describe; it takes "
        "modules, tuples, lists, dicts, arrays, numbers, strings and None"
    )


def _check_keys(node: dict, where: str):
    for key in node:
        if not isinstance(key, str | int | float):
            kind = type(key).__name__
            raise ValueError(
                f"{where} has the key {key!r}, a {kind}; save takes text and Python "
                "numbers as keys"
            )


def _rebuilt(node: dict[str, Any]) -> Any:
    """A tree like the described one, zeros for arrays."""
    if "value" in node:
        return node["value"]
    if "array" in node:
        shape, dtype = node["array"]
        zeros = np.zeros(tuple(shape), dtype)
        return _in_jax(zeros) if node["kind"] == "jax" else zeros
    if "tuple" in node:
        return tuple(_rebuilt(x) for x in node["tuple"])
    if "list" in node:
        return [_rebuilt(x) for x in node["list"]]
    if "dict" in node:
        return {key: _rebuilt(x) for key, x in node["dict"]}
    if "function" in node:
        return _found(node["function"])
    return _rebuilt_module(node)


def _in_jax(zeros: np.ndarray) -> jax.Array:
    array = jnp.asarray(zeros)
    if array.dtype != zeros.dtype:
        raise ValueError(
            f"the file holds {zeros.dtype}, which JAX here would cast to "
            f'{array.dtype}; call jax.config.update("jax_enable_x64", True) first'
        )
    return array


def _rebuilt_module(node: dict[str, Any]) -> Any:
    cls = _found(node["module"])
    known = _field_names(cls) if isinstance(cls, type) else None
    if known is None:
        raise ValueError(f"{node['module']} is not an equinox.Module or a named tuple")
    if set(node["fields"]) != set(known):
        changed = ", ".join(sorted(set(node["fields"]) ^ set(known)))
        raise ValueError(
            f"{node['module']} has changed since the file was written: {changed}"
        )
    fields = {name: _rebuilt(value) for name, value in node["fields"].items()}
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[name] for name in known])
    module = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    return module


def _field_names(cls: type) -> tuple[str, ...] | None:
    """Of a module or a named tuple; None for any other class."""
    if issubclass(cls, eqx.Module):
        return tuple(field.name for field in dataclasses.fields(cls))
    return getattr(cls, "_fields", None) if issubclass(cls, tuple) else None


def _name(thing: Any, where: str) -> str:
    name = getattr(thing, "__qualname__", None)
    if name is None or "<" in name:
        raise ValueError(
            f"{where} is {name or type(thing).__name__}, which has no name to find it "
            "by; define it at the top level of a module"
        )
    return f"{thing.__module__}:{name}"


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{module} cannot be imported here: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{name} does not exist here; was it renamed?")
        found = getattr(found, part)
    return found
