"""Packages that extras bring: datasets of xarray, tables of pandas, pictures."""

import importlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np


if TYPE_CHECKING:
    import pandas
    import xarray


#: Names of the axes of an array, and the array.
Variable = tuple[tuple[str, ...], Any]


def optional_module(name: str, purpose: str) -> ModuleType:
    """Import what an extra of diffsim brings; a sentence where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{purpose} {package}, which is not installed: pip install {package}"
        ) from error


def pictures() -> ModuleType:
    """`diffsim.plots`, for methods that draw.

    It stands above all packages, so that it is looked up by name and when it is used.
    """
    return importlib.import_module("diffsim.plots")


def dataset(
    variables: Mapping[str, Variable],
    coordinates: Mapping[str, Any],
    attributes: Mapping[str, Any],
) -> "xarray.Dataset":
    """A dataset of `variables`, in which each axis has its coordinates if it has any.

    Coordinates are along the axis of their name, or a `Variable` along another one.
    """
    xarray = optional_module("xarray", "to_xarray makes datasets of")
    check_axes(variables, coordinates)
    along = {axis for axes, _ in variables.values() for axis in axes}
    check_names([*variables, *{*coordinates, *along}])
    known = {
        name: x if _is_variable(x) else (() if np.ndim(x) == 0 else (name,), x)
        for name, x in coordinates.items()
    }
    return xarray.Dataset(
        {name: (axes, np.asarray(x)) for name, (axes, x) in variables.items()},
        {name: (axes, np.asarray(x)) for name, (axes, x) in known.items()},
        dict(attributes),
    )


def dataframe(
    columns: Mapping[str, Variable], coordinates: Mapping[str, Any]
) -> "pandas.DataFrame":
    """A table with a row for each combination of coordinates of the axes of `columns`.

    **Raises:** `ValueError` if they do not all have the same axes.
    """
    pandas = optional_module("pandas", "to_dataframe makes tables of")
    check_axes(columns, coordinates)
    axes, first = next(iter(columns.values()))
    shape = np.shape(first)
    for name, (others, x) in columns.items():
        if (others, np.shape(x)) != (axes, shape):
            raise ValueError(
                f"to_dataframe needs arrays along the same axes, got {axes} of "
                f"{shape} and, of {name}, {others} of {np.shape(x)} entries; "
                "to_xarray() holds both"
            )
    rows = math.prod(shape)
    flat = {name: np.reshape(np.asarray(x), rows) for name, (_, x) in columns.items()}
    along = [
        np.asarray(coordinates.get(axis, range(length)))
        for axis, length in zip(axes, shape, strict=True)
    ]
    if len(axes) > 1:
        index = pandas.MultiIndex.from_product(along, names=axes)
    else:
        index = pandas.Index(along[0], name=axes[0]) if axes else None
    return pandas.DataFrame(flat, index=index)


def check_names(names: Iterable[str], kind: str = "a table"):
    """Raise `ValueError` for a name that several arrays would have."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise ValueError(
            f"{kind} has one array of a name, got several named {twice}; give "
            "parameters, outputs and axes other names, none of which is run, status, "
            "successful or error_estimate"
        )


def check_axes(variables: Mapping[str, Variable], coordinates: Mapping[str, Any]):
    """Raise `ValueError` for axes and entries that do not fit the arrays."""
    for name, (axes, x) in variables.items():
        shape = np.shape(x)
        if len(set(axes)) != len(shape) or len(axes) != len(shape):
            raise ValueError(
                f"axes of {name} must be {len(shape)} different names, one for each "
                f"axis of shape {shape}, got {axes}"
            )
        for axis, length in zip(axes, shape, strict=True):
            entries = coordinates.get(axis, range(length))
            if not _is_variable(entries) and np.shape(entries) != (length,):
                raise ValueError(
                    f"entries of the axis {axis!r} must be {length}, as many as {name} "
                    f"has along it, got {entries!r:.60}"
                )


def _is_variable(coordinate: Any) -> bool:
    """Whether it has axes of its own; a tuple may be one of labels as well."""
    pair = isinstance(coordinate, tuple) and len(coordinate) == 2
    return pair and isinstance(coordinate[0], tuple)
