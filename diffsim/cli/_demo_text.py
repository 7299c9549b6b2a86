"""Text of the demo: its progress, its tables and its verdict."""

import contextlib
import pathlib
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._progress import clear_line, show_line
from .._results import RESULTS
from .._text_table import Table
from ..inference import Fisher, Fit
from ..nbody import NBody
from ..sweeps import Sweep
from ._planet_masses import CADENCE, ExperimentSetup, Observations


#: The demo fails unless every mass is within so many error bars of JPL's ...
_MOST_SIGMA = 4.0
#: ... and chi2 per degree of freedom within this of 1.
_CHI2_MARGIN = 0.1
#: A mass with an error bar above this fraction of JPL's is called undetermined.
_UNDETERMINED = 0.5


#: Seconds between two pictures of the line that moves.
_TICK = 0.2


class Stage(NamedTuple):
    """One stage that is done, in seconds."""

    title: str
    seconds: float
    compiling: float


class Clock:
    """Times stages one after another and shows the one that runs on `stream`.

    Where `stream` is no terminal, a line is written at the end of each stage only.
    """

    def __init__(self, stream: Any = None):
        self.stream = sys.stderr if stream is None else stream
        self.stages: list[Stage] = []
        self._news = ""

    def tell(self, news: str):
        """Show a text behind the title of the stage."""
        self._news = news

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Times what is inside."""
        self._news = ""
        began, over = time.perf_counter(), threading.Event()
        mover = threading.Thread(target=self._move, args=(title, began, over))
        mover.start()
        try:
            with _compiling() as compiling:
                yield
        finally:
            over.set()
            mover.join()
            if self.stream.isatty():
                clear_line(stream=self.stream)
        seconds = time.perf_counter() - began
        # Tracing within tracing is counted twice by JAX.
        compiled = min(sum(compiling), seconds)
        self.stages.append(Stage(title, seconds, compiled))
        line = f"{title}: {seconds:.1f} s, of which compiling {compiled:.1f} s"
        print(line, file=self.stream, flush=True)

    def _move(self, title: str, began: float, over: threading.Event):
        if not self.stream.isatty():
            return
        while not over.wait(_TICK):
            elapsed = time.perf_counter() - began
            turning = "|/-\\"[int(elapsed / _TICK) % 4]
            line = f"{turning} {title} {self._news} … {elapsed:.0f} s"
            show_line(line, stream=self.stream)


@contextlib.contextmanager
def _compiling() -> Iterator[list[float]]:
    """Seconds that JAX spends on tracing, lowering and compiling inside."""
    durations: list[float] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int):
        del kwargs
        if event.startswith("/jax/core/compile/"):
            durations.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield durations
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def opening(sky: Observations, setting: ExperimentSetup, guess: NBody) -> str:
    """Text on data, model and starting values."""
    off = np.asarray(guess.bodies.masses) / sky.gm - 1
    planets = ", ".join(
        f"{name} {100 * x:+.0f} %"
        for name, x in zip(sky.names[1:], off[1:], strict=True)
    )
    start = f"masses off: Sun {100 * off[0]:+.4f} %, {planets}; positions by 1e-4 au, "
    start = textwrap.fill(
        start + "velocities by 1e-6 au/day", width=88, subsequent_indent=" " * 10
    )
    years = setting.epochs * CADENCE / 365.25
    return f"""Weighing the planets
  data    {sky.data.size} coordinates: {len(sky.names)} bodies, every {CADENCE:.0f} \
days for {years:.1f} years from 2000 January 1,
          JPL DE440 plus Gaussian noise of {setting.sigma_km:g} km (seed {setting.seed})
  model   Newton plus the first post-Newtonian order of the Sun, Dopri8 at steps of
          {setting.method.step:g} days; Earth and Moon are one body at their barycenter
  free    {7 * len(sky.names)} numbers: every mass, position and velocity at the epoch
  start   {start}
"""


def masses(sky: Observations, fit: Fit) -> str:
    """The table: body, mass in two units, error bar, JPL's value, difference."""
    gm, error = _masses(sky, fit)
    rows = [("body", "mass [Earth]", "GM [km³/s²]", "±", "±/GM", "JPL DE440", "off by")]
    for i, name in enumerate(sky.names):
        difference = f"{(gm[i] - sky.gm[i]) / error[i]:+.2f} σ"
        jpl = f"{sky.gm[i] * sky.km3_s2:.2f}"
        if error[i] > _UNDETERMINED * sky.gm[i]:
            rows.append((name, "undetermined", "", "", "", jpl, difference))
            continue
        value, bar = (x * sky.km3_s2 for x in (gm[i], error[i]))
        earths = rounded(gm[i] / sky.earth_gm, error[i] / sky.earth_gm)
        relative = f"{error[i] / gm[i]:.1e}"
        numbers = earths, rounded(value, bar), rounded(bar, bar), relative
        rows.append((name, *numbers, jpl, difference))
    remarks = [
        f"{name} is undetermined: its error bar is {100 * bar / jpl:.0f} % of JPL's "
        "value, these data do not feel its pull."
        for name, jpl, bar in zip(sky.names, sky.gm, error, strict=True)
        if bar > _UNDETERMINED * jpl
    ]
    worst = int(np.argmax(np.asarray(fit.solver_error)))
    quality = (
        f"chi2 per degree of freedom {float(fit.chi2) / int(fit.dof):.4f}: "
        f"{int(fit.size)} data, {len(fit.names)} parameters, {int(fit.steps)} steps; "
        f"{RESULTS[fit.status] or 'converged'}\n"
        "error of the integration: steps half as long would move no value by more than "
        f"{float(fit.solver_error[worst]):.1e} σ ({fit.names[worst]})"
    )
    return "\n".join(["", _table(rows), *remarks, quality])


def forecast(
    sky: Observations, fit: Fit, longer: Fisher, setting: ExperimentSetup
) -> str:
    """Error bars of the masses now and after twice the time."""
    now = _masses(sky, fit)[1] / sky.gm
    later = np.asarray(longer.stderr)[: sky.gm.size] / sky.gm
    years = setting.epochs * CADENCE / 365.25
    first, second = (f"±/GM, {n * years:.0f} years" for n in (1, 2))
    rows = [("body", first, second, "better by")]
    for name, a, b in zip(sky.names, now, later, strict=True):
        rows.append((name, f"{a:.1e}", f"{b:.1e}", f"{a / b:.1f} ×"))
    title = "Forecast: the same experiment, twice as long (Fisher information, no data)"
    return "\n".join(["", title, _table(rows)])


def sweep(
    sky: Observations, fit: Fit, factors: np.ndarray, residuals: np.ndarray
) -> str:
    """Table of residuals for wrong masses of Jupiter, all else as fitted."""
    best = factors.size // 2
    chi2 = np.square(residuals / sky.sigma).reshape(len(residuals), -1).mean(1)
    worst = np.linalg.norm(residuals, axis=-1).max(1) * sky.au_km
    near = (best - 1, best, best + 1)
    shown = [0, best // 2, *near, best + best // 2, factors.size - 1]
    pulled = [sky.names.index(n) for n in ("Sun", "Mars", "Saturn")]
    rows = [("Jupiter's mass", "chi2/datum", *(f"{sky.names[i]} [km]" for i in pulled))]
    names = [f"× {factors[run]:.3f}" for run in shown] + ["JPL's"]
    for name, run in zip(names, [*shown, -1], strict=True):
        numbers = (f"{worst[run, i]:.3g}" for i in pulled)
        rows.append((name, f"{chi2[run]:.4g}", *numbers))
    title = (
        f"Sweep: {len(residuals)} runs in one call, Jupiter's mass × {factors[0]:.1f} "
        f"… {factors[-1]:.1f} and JPL's,\nall else as fitted; chi2 and the largest "
        "residuals of three bodies"
    )
    # The error bar that the slope of the residuals gives, beside that of the fit.
    rise = (residuals[best + 1] - residuals[best - 1]) / sky.sigma
    alone = (factors[best + 1] - factors[best - 1]) / np.linalg.norm(rise)
    jupiter = sky.names.index("Jupiter")
    gm, error = _masses(sky, fit)
    bars = (
        f"With all else known the residuals would tell Jupiter's mass to {alone:.1e}; "
        f"with all else free\nthey tell it to {error[jupiter] / gm[jupiter]:.1e}."
    )
    return "\n".join(["", title, _table(rows), bars])


def pictures(files: Sequence[pathlib.Path]) -> str:
    """Where the pictures are."""
    return "\n".join(["", "Pictures", *(f"  {file.resolve()}" for file in files)])


def times(stages: Sequence[Stage], importing: float, seconds: float) -> str:
    """Wall times of stages, compiling and running apart."""
    rows = [("wall time [s]", "compiling", "running", "all")]
    if importing:
        rows.append(("imports", "", "", f"{importing:.1f}"))
    for stage in stages:
        running = stage.seconds - stage.compiling
        cells = (stage.compiling, running, stage.seconds)
        compiling, running, both = (f"{cell:.1f}" for cell in cells)
        rows.append((stage.title, compiling, running, both))
    rows.append(("in all", "", "", f"{importing + seconds:.1f}"))
    return "\n".join(["", _table(rows), ""])


def failures(sky: Observations, fit: Fit, swept: Sweep) -> list[str]:
    """The claims that did not hold, a sentence each."""
    failures = []
    if RESULTS[fit.status]:
        failures.append(f"the fit did not converge: {RESULTS[fit.status]}")
    gm, error = _masses(sky, fit)
    for name, sigmas in zip(sky.names, (gm - sky.gm) / error, strict=True):
        # Written so that NaN fails.
        if not abs(sigmas) < _MOST_SIGMA:
            failures.append(
                f"the mass of {name} is {sigmas:+.1f} σ from JPL's, allowed are "
                f"{_MOST_SIGMA:g}"
            )
    reduced = float(fit.chi2) / int(fit.dof)
    if not abs(reduced - 1) <= _CHI2_MARGIN:
        failures.append(
            f"chi2 per degree of freedom is {reduced:.3f}, allowed is "
            f"1 ± {_CHI2_MARGIN:g}"
        )
    if swept.failures:
        failures.append(f"{len(swept.failures)} runs of the sweep failed: {swept}")
    return failures


def verdict(failures: Sequence[str]) -> str:
    """One line if all is well, else what failed."""
    if failures:
        return "\n".join(["FAILED", *(f"  {failure}" for failure in failures)])
    return (
        f"All masses within {_MOST_SIGMA:g} σ of JPL's, chi2 per degree of freedom "
        f"within 1 ± {_CHI2_MARGIN:g}."
    )


def rounded(value: float, error: float) -> str:
    """`value` with the decimals that the two leading digits of `error` have."""
    decimals = max(0, 1 - int(np.floor(np.log10(error)))) if error > 0 else 6
    return f"{value:.{decimals}f}"


def _masses(sky: Observations, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """GM of all bodies and their error bars, au³/day²."""
    where = [fit.names.index(f"bodies.masses[{name}]") for name in sky.names]
    return np.asarray(fit.values)[where], np.asarray(fit.stderr)[where]


def _table(rows: Sequence[Sequence[str]]) -> str:
    return Table((), rows, indent="  ").text()
