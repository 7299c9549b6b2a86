"""`demo`: weigh the planets, from the first wrong guess to the pictures."""

import pathlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plots
from ..inference import (
    Fisher,
    Fit,
    FitOptions,
    Gaussian,
    LevenbergMarquardt,
    fisher,
    fit,
)
from ..sweeps import sweep
from . import _demo_text as text
from ._demo_text import Clock
from ._planet_masses import (
    ExperimentSetup,
    Observations,
    Prediction,
    observed,
    wrong_start,
)


if TYPE_CHECKING:
    import matplotlib.figure


#: Jupiter's mass is swept over these multiples of the best fit; the last run takes it
#: from JPL.
_FACTORS = np.linspace(0.8, 1.2, 31)
#: A hundredth of an error bar is enough, and saves a Jacobian.
_SOLVER = LevenbergMarquardt(atol=1e-2)


def demo(
    folder: pathlib.Path,
    *,
    seed: int = 1,
    setting: ExperimentSetup | None = None,
    importing: float = 0.0,
) -> int:
    """Weighs the planets and prints how; the pictures go to `folder`.

    **Arguments:** `seed` of noise and start, unless a `setting` says all; `importing`,
    seconds that the process has spent on imports before.

    **Returns:** 0, or 1 if a claim failed, which is printed.
    """
    began, clock = time.perf_counter(), Clock()
    setting = ExperimentSetup(seed=seed) if setting is None else setting
    folder.mkdir(parents=True, exist_ok=True)
    sky = observed(setting)
    guess = wrong_start(sky, setting.seed)
    print(text.opening(sky, setting, guess), flush=True)
    best = _fit_to_data(sky, setting, guess, clock)
    print(text.masses(sky, best), flush=True)
    with clock.stage("forecast of twice the time"):
        longer = Prediction(2 * setting.epochs, setting.method)
        forecast = fisher(longer, best.model, noise=Gaussian(sky.sigma))
        forecast.stderr.block_until_ready()
    print(text.forecast(sky, best, forecast, setting), flush=True)
    # Positions for 31 masses of Jupiter around the best fit, and for JPL's.
    jupiter = sky.names.index("Jupiter")
    masses = np.append(_FACTORS * best.model.bodies.masses[jupiter], sky.gm[jupiter])
    with clock.stage(f"sweep of {masses.size} runs"):
        predict = Prediction(setting.epochs, setting.method)
        swept = sweep(predict, best.model, {"bodies.masses[Jupiter]": masses})
    residuals = sky.data[None] - swept.outputs
    print(text.sweep(sky, best, _FACTORS, residuals), flush=True)
    with clock.stage("pictures"):
        fitted = swept.outputs[_FACTORS.size // 2]
        files = _saved_pictures(folder, sky, best, forecast, fitted)
    print(text.pictures(files))
    print(text.times(clock.stages, importing, time.perf_counter() - began))
    failures = text.failures(sky, best, swept)
    print(text.verdict(failures))
    return 1 if failures else 0


def _fit_to_data(
    sky: Observations, setting: ExperimentSetup, guess: Any, clock: Clock
) -> Fit:
    freedom = sky.data.size - guess.bodies.masses.size * 7

    def tell(step: dict[str, Any]):
        clock.tell(f"step {step['step']}, chi2/dof {2 * step['loss'] / freedom:.4g}")

    with clock.stage("fit"):
        return fit(
            Prediction(setting.epochs, setting.method),
            guess,
            sky.data,
            noise=Gaussian(sky.sigma),
            solver=_SOLVER,
            options=FitOptions(progress=tell, max_steps=50),
        )


#: Obliquity of the ecliptic at J2000 (IAU 2006): the data stand on the equator.
_OBLIQUITY = np.deg2rad(84381.406 / 3600)
#: Sun to Mars, and the Sun with Jupiter to Pluto.
_INNER = slice(0, 5)
_OUTER = [0, 5, 6, 7, 8, 9]


def _saved_pictures(
    folder: pathlib.Path,
    sky: Observations,
    fit: Fit,
    forecast: Fisher,
    fitted: np.ndarray,
) -> tuple[pathlib.Path, pathlib.Path]:
    """Write the orbits with the residuals, and the corner plot of the masses.

    `fitted` are positions as the fit has them, (time, body, 3), au.
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
    # From the equator to the ecliptic.
    c, s = np.cos(_OBLIQUITY), np.sin(_OBLIQUITY)
    ecliptic = fitted @ np.array([[1, 0, 0], [0, c, s], [0, -s, c]]).T
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
