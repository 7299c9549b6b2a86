"""`observed_minus_computed`: how far events stray from a linear ephemeris."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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


#: How many of a unit a day has.
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
    if unit is not None and unit not in _PER_DAY:
        raise ValueError(f"unit must be None or one of {list(_PER_DAY)}, got {unit!r}")
    times, _ = checked_series("times", times, times)
    sigma = checked_sigma(sigma, times)
    epochs = _epochs(times, epochs, ephemeris)
    start, period = _ephemeris(times, epochs, ephemeris, sigma)
    scale = 1.0 if unit is None else _PER_DAY[unit]
    ax = axes_or_new(ax, (4.8, 3.2))
    number = series_count(ax)
    if number == 0:
        ax.axhline(0, color="#999999", linewidth=0.7, zorder=1)
    if model is not None:
        numbers, predicted = _model_times(model, epochs)
        predicted = scale * (predicted - (start + period * numbers))
        style = {"color": ink(number), "linestyle": dash(number), "zorder": 1.5}
        ax.plot(numbers, predicted, linewidth=1.1, **style)
    off = scale * (times - (start + period * epochs))
    sigma = None if sigma is None else scale * sigma
    draw_points(ax, epochs, off, sigma, number=number, label=label or "_points")
    # One label has room for one ephemeris.
    computed = "" if number else f",  C = {_digits(start)} + {_digits(period)} n"
    ax.set_xlabel(f"epoch n{computed}")
    ax.set_ylabel("O − C" + ("" if unit is None else f" [{unit}]"))
    if label is not None:
        legend_above(ax, columns=3)
    return ax


def _digits(days: float) -> str:
    """Six decimals, a tenth of a second."""
    return np.format_float_positional(days, precision=6, trim="-")


def _epochs(times: np.ndarray, epochs: Any, ephemeris: Any) -> np.ndarray:
    if epochs is not None:
        return _checked_epochs(epochs, times)
    if ephemeris is not None:
        start, period = _two_numbers(ephemeris)
        return np.round((times - start) / period)
    apart = np.diff(times)
    if apart.size and not (np.min(apart) > 0 and np.max(apart) < 1.5 * np.min(apart)):
        raise ValueError(
            "epochs must be given where events are missing or out of order: times lie "
            f"from {np.min(apart):.6g} to {np.max(apart):.6g} apart"
        )
    return np.arange(float(times.size))


def _checked_epochs(epochs: Any, times: np.ndarray) -> np.ndarray:
    epochs, _ = checked_series("times", epochs, times)
    if not np.array_equal(epochs, np.round(epochs)):
        raise ValueError(
            f"epochs must be whole numbers, got {epochs[epochs != np.round(epochs)][0]}"
        )
    return epochs


def _ephemeris(
    times: np.ndarray, epochs: np.ndarray, given: Any, sigma: np.ndarray | None
) -> tuple[float, float]:
    """The time of epoch 0, and the period."""
    if given is not None:
        return _two_numbers(given)
    if np.unique(epochs).size < 2:
        raise ValueError(
            "times must be of two epochs at least to fit an ephemeris, got "
            f"{np.unique(epochs).size}; give ephemeris=(T0, P)"
        )
    # About their means: days since an epoch have seven digits before the point.
    weights = np.ones_like(times) if sigma is None else sigma**-2
    n0, t0 = (np.average(a, weights=weights) for a in (epochs, times))
    n, t = epochs - n0, times - t0
    period = np.sum(weights * n * t) / np.sum(weights * n * n)
    return float(t0 - period * n0), float(period)


def _two_numbers(ephemeris: Any) -> tuple[float, float]:
    found = np.asarray(ephemeris, float)
    if found.shape != (2,) or not (np.all(np.isfinite(found)) and found[1] > 0):
        raise ValueError(
            "ephemeris must be two numbers, the time of epoch 0 and a positive period, "
            f"got {ephemeris}"
        )
    return float(found[0]), float(found[1])


def _model_times(model: Any, epochs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Epochs in order, and the times there."""
    if isinstance(model, tuple):
        if len(model) != 2:
            raise ValueError(
                f"model must be times or a pair (epochs, times), got {len(model)} "
                "entries"
            )
        epochs, model = np.asarray(model[0], float), model[1]
    epochs, times = checked_series("times of model", epochs, model)
    order = np.argsort(epochs, kind="stable")
    return epochs[order], times[order]
