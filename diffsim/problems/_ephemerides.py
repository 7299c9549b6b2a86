"""`load_de440`: the Solar System of JPL's DE440 ephemeris, a small table of it."""

import dataclasses
import importlib.resources
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Ephemeris:
    """Positions of bodies at given epochs, and what it takes to compute them.

    All in NumPy float64, whatever JAX's precision. Frame and time scale are those of
    the source; see `load_de440`.

    **Fields**

    - `names`: the bodies, in the order of every `body` axis.
    - `epochs`: times of `positions`, days since `jd0`.
    - `positions`: barycentric, au.
    - `velocities0`: barycentric, au/day, at `epochs[0]`.
    - `check_epochs`, `check_positions`: two more epochs, off the grid of `epochs`, to
        compare integrations with.
    - `gm`: gravitational parameters, au³/day².
    - `c`: speed of light, au/day.
    - `au_km`: kilometres in an astronomical unit.
    - `jd0`: the Julian date that times count from.
    """

    names: tuple[str, ...]
    epochs: Float[np.ndarray, " time"]
    positions: Float[np.ndarray, "time body 3"]
    velocities0: Float[np.ndarray, "body 3"]
    check_epochs: Float[np.ndarray, " check"]
    check_positions: Float[np.ndarray, "check body 3"]
    gm: Float[np.ndarray, " body"]
    c: float
    au_km: float
    jd0: float

    references: ClassVar[tuple[str, ...]] = ("10.3847/1538-3881/abd414",)


def load_de440() -> Ephemeris:
    """Sun, planets, Moon and Pluto from JPL's DE440, ten years from J2000.

    ```python
    table = problems.load_de440()
    moon, earth = table.names.index("Moon"), table.names.index("Earth")
    apart = table.positions[:, moon] - table.positions[:, earth]
    table.au_km * np.linalg.norm(apart, axis=1)  # from 357307 km to 406403 km
    ```

    Mercury, Venus, Earth and Moon are the bodies themselves; Mars to Pluto are the
    barycenters of the planet and its moons. 367 epochs, every 10 days from
    JD 2451545.0 (2000 January 1, 12 h) to 3660 days later; check epochs after 365.25
    and 3652.5 days.

    **Returns:** an `Ephemeris`: positions relative to the Solar System barycenter of
    DE440, axes of the ICRF, time TDB; GM, c and au as DE440 was integrated with. That
    barycenter counts asteroids, Kuiper-belt objects and relativistic mass as well, so
    Σ GM x of the eleven bodies is not zero; do not shift to it before comparing.

    **Limits:** eleven point masses follow DE440 only so far (mathematics): asteroids,
    Kuiper-belt objects, the figures of Sun, Earth and Moon and the tides act in DE440
    and are not in this table.

    Source: Park, Folkner, Williams & Boggs (2021), AJ 161, 105. Made by
    `tools/make_de440_table.py`; source and license stand in `data/README.md`.
    """
    table = importlib.resources.files("diffsim.problems") / "data" / "de440.npz"
    with table.open("rb") as file, np.load(file) as arrays:
        return Ephemeris(
            names=tuple(arrays["names"].tolist()),
            epochs=arrays["epochs"],
            positions=arrays["positions"],
            velocities0=arrays["velocities0"],
            check_epochs=arrays["check_epochs"],
            check_positions=arrays["check_positions"],
            gm=arrays["gm"],
            c=float(arrays["c"]),
            au_km=float(arrays["au_km"]),
            jd0=float(arrays["jd0"]),
        )
