"""The two pictures of the demo."""

import pathlib
from typing import TYPE_CHECKING

import numpy as np

from .. import plots
from ..inference import Fisher, Fit
from ._planet_masses import Observations


if TYPE_CHECKING:
    import matplotlib.figure


#: Obliquity of the ecliptic at J2000 (IAU 2006): the data stand on the equator.
_OBLIQUITY = np.deg2rad(84381.406 / 3600)
#: Sun to Mars, and the Sun with Jupiter to Pluto.
_INNER = slice(0, 5)
_OUTER = [0, 5, 6, 7, 8, 9]


def saved_pictures(
    folder: pathlib.Path,
    sky: Observations,
    fit: Fit,
    forecast: Fisher,
    fitted: np.ndarray,
) -> tuple[pathlib.Path, pathlib.Path]:
    """Write the orbits with the residuals, and the corner plot of the masses.

    **Arguments:** `fitted`, positions as the fit has them, (time, body, 3), au.

    **Returns:** the two files.
    """
    orbits = folder / "weigh_the_planets.png"
    masses = folder / "weigh_the_planets_masses.png"
    _orbits(sky, fitted).savefig(orbits)
    _masses(sky, fit, forecast).savefig(masses)
    return orbits, masses


def _orbits(sky: Observations, fitted: np.ndarray) -> "matplotlib.figure.Figure":
    figure = plots.sheet((12.5, 8.4))
    panels = figure.add_gridspec(2, 2, width_ratios=(1, 1.7))
    with plots.look():
        inner, outer = (figure.add_subplot(panels[row, 0]) for row in (0, 1))
        right = figure.add_subplot(panels[:, 1])
    ecliptic = _to_ecliptic(fitted)
    plots.orbits(
        _relative_to_first(ecliptic[:, _INNER]),
        names=sky.names[_INNER],
        ax=inner,
        unit="au",
        colors=plots.COLORS[_INNER],
    )
    plots.orbits(
        ecliptic[:, _OUTER],
        names=[sky.names[i] for i in _OUTER],
        ax=outer,
        unit="au",
        colors=[plots.COLORS[i] for i in _OUTER],
    )
    inner.set_title("Fitted orbits around the Sun, ecliptic", loc="left")
    outer.set_title("Fitted orbits around the barycenter", loc="left")
    years = 2000 + sky.times / 365.25
    off = sky.data - fitted
    plots.residuals(years, off, sky.sigma, names=sky.names, ax=right)
    km = sky.sigma * sky.au_km
    title = f"Residuals of x, y, z; bands: one and two times {km:g} km"
    right.set_title(title, loc="left")
    right.set_xlabel("year")
    return figure


def _masses(
    sky: Observations, fit: Fit, forecast: Fisher
) -> "matplotlib.figure.Figure":
    """All masses but those that stay undetermined, over JPL's."""
    determined = [
        i
        for i, name in enumerate(sky.names)
        if fit.stderr[fit.names.index(f"bodies.masses[{name}]")] < 0.5 * sky.gm[i]
    ]
    years = round(sky.times[-1] / 365.25)
    labels = {f"{years} years": fit, f"{2 * years} years, forecast": forecast}
    figure = plots.sheet((9.6, 9.6))
    plots.corner(
        labels,
        names=[f"bodies.masses[{sky.names[i]}]" for i in determined],
        units=sky.gm[determined],
        truths=1.0,
        labels=[sky.names[i] for i in determined],
        ax=figure,
    )
    title = "Masses in units of JPL's (dashed), ellipses of 1σ and 2σ"
    figure.suptitle(title, x=0.02, ha="left")
    return figure


def _to_ecliptic(positions: np.ndarray) -> np.ndarray:
    """From the equator to the ecliptic."""
    c, s = np.cos(_OBLIQUITY), np.sin(_OBLIQUITY)
    return positions @ np.array([[1, 0, 0], [0, c, s], [0, -s, c]]).T


def _relative_to_first(positions: np.ndarray) -> np.ndarray:
    """Positions relative to the first body, in the order of their angle.

    Ten days are a ninth of Mercury's year; ten years of them fill its orbit. The last
    position stays last.
    """
    relative = positions - positions[:, :1]
    angle = np.arctan2(relative[..., 1], relative[..., 0])
    since = np.mod(angle - angle[-1], 2 * np.pi)
    since[-1] = 2 * np.pi
    order = np.argsort(since, axis=0)
    closed = np.take_along_axis(relative, order[..., None], axis=0)
    return np.concatenate([closed[-1:], closed])
