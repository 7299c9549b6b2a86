"""`observed_minus_computed`: how far events stray from a linear ephemeris."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import count, one_of, positive
from ._series import (
    checked_series,
    checked_sigma,
    draw_points,
    ink,
    legend_above,
    series_count,
)
from ._style import axes_or_new, dash


if TYPE_CHECKING:
    import matplotlib.axes


#: Length of a day in each unit.
_PER_DAY = {"s": 86400.0, "min": 1440.0, "h": 24.0, "d": 1.0}


def observed_minus_computed(
    times: Any,
    *,
    epochs: Any = None,
    ephemeris: Sequence[float] | None = None,
    sigma: Any = None,
    model: Any = None,
    unit: str | None = "min",
    label: str | None = None,
    ax: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw the O − C diagram of transits, eclipses or maxima.

    $$O - C = t_n - (T_0 + n P)$$

    The times of an undisturbed orbit lie on a level line. A wrong period is a slope, a
    changing one a parabola, another planet a wave.

    ```python
    n = np.arange(30)
    predicted = 2.1 + 4.23 * n + 0.002 * np.sin(2 * np.pi * n / 12)  # days
    transits = predicted + 0.0007 * np.random.default_rng(0).normal(size=30)
    plots.observed_minus_computed(transits, sigma=0.0007, model=predicted)
    ```

    **Arguments**

    - `times`: of the events, shape (event,), in days unless `unit` is None.
    - `epochs`: the whole number n of each event, shape (event,). None takes the nearest
        to the `ephemeris`, or, where that is fitted, counts from 0, if no gap between
        two events shows that one is missing.
    - `ephemeris`: $T_0$ and P; None fits both by least squares, weighted by `sigma`.
    - `sigma`: standard deviations of the times, a number or shape (event,); None draws
        none.
    - `model`: predicted times, shape (event,), of the same events; or a pair of epochs
        and times, which may reach beyond them. The same ephemeris is subtracted.
    - `unit`: "s", "min", "h" or "d", in which times in days are drawn; None draws
        times of any unit in their own.
    - `label`: of this series in a legend, "planet b".
    - `ax`: Matplotlib axes to draw into; None makes a figure.

    **Returns:** the axes; the label of the horizontal one has the ephemeris of the
        first series.

    **Raises:** `ValueError` for shapes that do not fit, epochs that are no whole
        numbers, a fit to fewer than two epochs, a gap where epochs are counted, and
        another unit; `ImportError` with what to install where Matplotlib is missing.
    """
    one_of("unit", unit, (None, *_PER_DAY))
    times, _ = checked_series("times", times, times)
    sigma = checked_sigma(sigma, times)
    if ephemeris is not None:
        start, period = (float(number) for number in ephemeris)
        positive("the period of ephemeris", period)
    if epochs is not None:
        epochs, _ = checked_series("times", epochs, times)
        if not np.array_equal(epochs, np.round(epochs)):
            raise ValueError("epochs must be whole numbers")
    elif ephemeris is not None:
        epochs = np.round((times - start) / period)
    else:
        epochs = np.arange(float(times.size))
        apart = np.diff(times)
        if not np.all((apart > 0) & (apart < 1.5 * np.min(apart, initial=np.inf))):
            raise ValueError(
                "epochs must be given where events are missing or out of order: times "
                f"lie from {np.min(apart):.6g} to {np.max(apart):.6g} apart"
            )
    if ephemeris is None:
        start, period = _fitted_ephemeris(times, epochs, sigma)
    scale = 1.0 if unit is None else _PER_DAY[unit]
    ax = axes_or_new(ax, (4.8, 3.2))
    number = series_count(ax)
    if number == 0:
        ax.axhline(0, color="#999999", linewidth=0.7, zorder=1)
    if model is not None:
        pair = model if isinstance(model, tuple) else (epochs, model)
        numbers, predicted = checked_series("times of model", *pair)
        order = np.argsort(numbers, kind="stable")
        numbers, predicted = numbers[order], predicted[order]
        predicted = scale * (predicted - (start + period * numbers))
        style = {"color": ink(number), "linestyle": dash(number), "zorder": 1.5}
        ax.plot(numbers, predicted, linewidth=1.1, **style)
    off = scale * (times - (start + period * epochs))
    sigma = None if sigma is None else scale * sigma
    draw_points(ax, epochs, off, sigma, number=number, label=label or "_points")
    # One label has room for one ephemeris; six decimals are a tenth of a second.
    start, period = (
        np.format_float_positional(days, precision=6, trim="-")
        for days in (start, period)
    )
    computed = "" if number else f",  C = {start} + {period} n"
    ax.set_xlabel(f"epoch n{computed}")
    ax.set_ylabel("O − C" + ("" if unit is None else f" [{unit}]"))
    if label is not None:
        legend_above(ax, columns=3)
    return ax


def _fitted_ephemeris(
    times: np.ndarray, epochs: np.ndarray, sigma: np.ndarray | None
) -> tuple[float, float]:
    """The time of epoch 0 and the period, by weighted least squares."""
    count("the number of epochs to fit an ephemeris", np.unique(epochs).size, 2)
    # About their means: days since an epoch have seven digits before the point.
    weights = np.ones_like(times) if sigma is None else sigma**-2
    n0, t0 = (np.average(a, weights=weights) for a in (epochs, times))
    n, t = epochs - n0, times - t0
    period = np.sum(weights * n * t) / np.sum(weights * n * n)
    return float(t0 - period * n0), float(period)
