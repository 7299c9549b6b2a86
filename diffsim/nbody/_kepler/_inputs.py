"""What functions of a relative position and velocity are given."""

from typing import Any

from jaxtyping import Array

from ..._checks import alike, check_broadcast


#: What gm is, for a sentence.
GM_HINT = "it is G times the sum of both masses"


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


#: Of REBOUND and of the literature.
_ALIASES = {
    "a": "semi_major_axis",
    "e": "eccentricity",
    "i": "inclination",
    "inc": "inclination",
    "Omega": "longitude_of_ascending_node",
    "node": "longitude_of_ascending_node",
    "omega": "argument_of_pericenter",
    "argument_of_periapsis": "argument_of_pericenter",
    "f": "true_anomaly",
    "nu": "true_anomaly",
    "M": "Elements.from_mean_anomaly(mean_anomaly, ...)",
    "mean_anomaly": "Elements.from_mean_anomaly(mean_anomaly, ...)",
    "l": "RegularElements(mean_longitude=...)",
    "P": "semi_major_axis=(gm * P**2 / (4 * pi**2)) ** (1 / 3)",
    "period": "semi_major_axis=(gm * period**2 / (4 * pi**2)) ** (1 / 3)",
}


def check_named(unknown: dict[str, Any], semi_major_axis: Any):
    """Refuse elements by other names than ours, and say ours; and orbits of no size."""
    if not unknown:
        if semi_major_axis is None:
            raise TypeError("elements need semi_major_axis=..., a length")
        return
    known = [f"{name} is {_ALIASES[name]}" for name in unknown if name in _ALIASES]
    others = [name for name in unknown if name not in _ALIASES]
    got = [*known, *(f"{name} is no element" for name in others)]
    raise TypeError(
        f"elements have long names: {', '.join(got)}; see help(nbody.Elements)"
    )
