"""What functions of a relative position and velocity are given."""

from typing import Any

from jaxtyping import Array

from ..._checks import alike, check_broadcast


def phase(x: Any, v: Any, **scalars: Any) -> list[Array]:
    """`x`, `v` of shape (..., 3) and `scalars` of shape (...), all of one dtype."""
    x, v, *rest = arrays = alike(x=x, v=v, **scalars)
    for name, vector in (("x", x), ("v", v)):
        if vector.shape[-1:] != (3,):
            raise ValueError(
                f"{name} must have shape (..., 3), got {vector.shape}; for planar "
                "orbits set z to zero"
            )
    leading = {"x": x.shape[:-1], "v": v.shape[:-1]}
    given = {name: a.shape for name, a in zip(scalars, rest, strict=True)}
    check_broadcast(**leading, **given)
    return arrays
