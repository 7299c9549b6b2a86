"""`demo`: weigh the planets, from the first wrong guess to the pictures."""

import pathlib
import time
from typing import Any

import numpy as np

from ..inference import Fit, FitOptions, Gaussian, LevenbergMarquardt, fisher, fit
from ..sweeps import Sweep, sweep
from . import _demo_text as text
from ._demo_plots import saved_pictures
from ._demo_progress import Clock
from ._planet_masses import (
    ExperimentSetup,
    Observations,
    Prediction,
    observed,
    wrong_start,
)


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
    sky, guess = observed(setting), None
    guess = wrong_start(sky, setting.seed)
    print(text.opening(sky, setting, guess), flush=True)
    best = _fit_to_data(sky, setting, guess, clock)
    print(text.masses(sky, best), flush=True)
    with clock.stage("forecast of twice the time"):
        longer = Prediction(2 * setting.epochs, setting.method)
        forecast = fisher(longer, best.model, noise=Gaussian(sky.sigma))
        forecast.stderr.block_until_ready()
    print(text.forecast(sky, best, forecast, setting), flush=True)
    swept = _swept(sky, setting, best, clock)
    residuals = sky.data[None] - swept.outputs
    print(text.sweep(sky, best, _FACTORS, residuals), flush=True)
    with clock.stage("pictures"):
        fitted = swept.outputs[_FACTORS.size // 2]
        files = saved_pictures(folder, sky, best, forecast, fitted)
    print(text.pictures(files))
    print(text.times(clock.stages, importing, time.perf_counter() - began))
    failures = text.failures(sky, best, swept)
    print(text.verdict(failures))
    return 1 if failures else 0


def _fit_to_data(
    sky: Observations, setting: ExperimentSetup, guess: Any, clock: Clock
) -> Fit:
    prediction = Prediction(setting.epochs, setting.method)
    freedom = sky.data.size - guess.bodies.masses.size * 7

    def tell(step: dict[str, Any]):
        clock.tell(f"step {step['step']}, chi2/dof {2 * step['loss'] / freedom:.4g}")

    with clock.stage("fit"):
        return fit(
            prediction,
            guess,
            sky.data,
            noise=Gaussian(sky.sigma),
            solver=_SOLVER,
            options=FitOptions(progress=tell, max_steps=50),
        )


def _swept(
    sky: Observations, setting: ExperimentSetup, best: Fit, clock: Clock
) -> Sweep:
    """Positions for 31 masses of Jupiter around the best fit, and for JPL's."""
    jupiter = sky.names.index("Jupiter")
    masses = np.append(_FACTORS * best.model.bodies.masses[jupiter], sky.gm[jupiter])
    with clock.stage(f"sweep of {masses.size} runs"):
        return sweep(
            Prediction(setting.epochs, setting.method),
            best.model,
            {"bodies.masses[Jupiter]": masses},
        )
