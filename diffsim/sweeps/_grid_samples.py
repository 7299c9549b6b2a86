"""`grid`: every combination of a few axes, as the runs of a sweep."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Array

from ._swept_parameters import as_numpy, is_key


def grid(axes: Any = None, /, **named: Any) -> dict[str, np.ndarray | Array]:
    """The product of axes: all combinations, the last axis varying fastest.

    ```python
    def period(pendulum):
        return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

    lengths, gravities = np.linspace(0.1, 2.0, 20), np.array([1.62, 3.71, 9.81])
    over = sweeps.grid(length=lengths, g=gravities)
    model = {"length": jnp.array(1.0), "g": jnp.array(1.0)}
    ds.sweep(period, model, over).outputs.reshape(lengths.size, gravities.size)
    ```

    **Arguments:** `axes`, a mapping of paths to values, shape (value, ...) each; or
    `named`, the same as keywords, where a path is a Python name.

    **Returns:** paths to arrays with one leading run axis, for `sweep(over=...)`.

    **Raises:** `ValueError` for no axes, an axis named twice, or one that is not an
    array of at least one value.
    """
    if not (axes is None or isinstance(axes, Mapping)):
        raise ValueError(
            f"grid needs a mapping of paths to values, got {type(axes).__name__}"
        )
    repeated = set(axes or {}) & set(named)
    if repeated:
        raise ValueError(f"grid got {sorted(repeated)} in the mapping and as keywords")
    columns = {
        path: x if is_key(x) else as_numpy(f"grid axis {path!r}", x)
        for path, x in {**(axes or {}), **named}.items()
    }
    if not columns:
        raise ValueError("grid needs at least one axis, paths to arrays of values")
    for path, values in columns.items():
        if values.ndim == 0 or values.size == 0:
            raise ValueError(
                f"grid axis {path!r} must have shape (value, ...) with at least one "
                f"value, got shape {values.shape}"
            )
    numbers = np.indices([len(values) for values in columns.values()])
    return {
        path: values[index.reshape(-1)]
        for (path, values), index in zip(columns.items(), numbers, strict=True)
    }
