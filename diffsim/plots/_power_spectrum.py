"""`spectrum`: power or energy by wavenumber."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._validation import finite, positive
from ..pde import spectrum as power_by_shell
from ._axis_labels import Labels, plain_number
from ._color_scales import time_colors
from ._derived_fields import is_incompressible, velocity_of
from ._field_map import time_title
from ._field_series import FieldSeries, field_series
from ._style import INK, axes_or_new, legend, look


if TYPE_CHECKING:
    import matplotlib.axes


#: Name of the spectrum of a flow.
_ENERGY = "energy"
#: The axis of power ends this far below the strongest shell, not where dealiasing or
#: rounding end it.
_FAINTEST = 1e-12


def spectrum(
    source: Any,
    name: str | None = None,
    *,
    time: Any = None,
    ax: Any = None,
    slope: float | int | None = None,
    grid: Any = None,
    labels: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw the power of a periodic field, or the energy of a flow, by wavenumber.

    $$P_n = \frac1{N^2}\sum_{|k|\,\in\,\text{shell } n} |\hat u_k|^2, \qquad
      E_n = \tfrac12 \sum_a P_n[u_a]$$

    as `pde.spectrum` has them, shells of width $\Delta k = 2\pi/L$, up to the last full
    one; both axes logarithmic, so that the mean of the field is not drawn.

    ```python
    ring, law = pde.Grid(128), pde.Burgers(None)
    wave = pde.Evolution(law, lambda x: jnp.sin(2 * np.pi * x[0]), ring)
    method = ds.Method(integrators.SSPRK3(), controller=pde.CFL(0.5))
    trajectory = ds.simulate(wave, [0.1, 0.5], method)
    plots.spectrum(trajectory, time=[0.1, 0.5], slope=-2)  # of a shock
    ```

    **Arguments**

    - `source`, `grid`: as for `field`; on an array of velocities on a `Grid`, shape
        (axis, *grid), `name` is "energy".
    - `name`: a name as for `field`, or "energy" of a flow. None takes the energy of
        flows, of others the first field.
    - `time`: the nearest output is drawn, several draw a line each with a legend; None
        takes the last.
    - `ax`: Matplotlib axes to draw into; None makes a figure.
    - `slope`: of a reference line above the spectra, -5/3 or -3 say, written beside
        it.
    - `labels`: what to write instead of the name, "wavenumber" and "time".

    **Returns:** the axes.

    **Raises:** `ValueError` for fields that are not periodic along every axis, and as
    `field`.

    **Limits:** as `pde.spectrum`; the axis of power ends 12 decades below the strongest
    shell (convenience: move it by `axes.set_ylim`).
    """
    series, what = _series(source, name, grid)
    words = Labels(labels, ("wavenumber", "time", what))
    rows = [series.row(t) for t in (time if np.ndim(time) else [time])]
    with look():
        ax = axes_or_new(ax, (5.6, 4.2))
        several = len(rows) > 1
        spectra = [_power(series, row, what) for row in rows]
        inks = time_colors(len(rows))
        for (k, power), row, ink in zip(spectra, rows, inks, strict=True):
            label = plain_number(series.time(row)) if several else None
            ax.loglog(k, power, color=ink, linewidth=1.4, label=label)
        k, highest = spectra[0][0], np.max([power for _, power in spectra], axis=0)
        if slope is not None:
            _draw_slope(ax, k, highest, slope)
        # The axis of power ends where rounding begins.
        ax.set_ylim(bottom=max(ax.get_ylim()[0], _FAINTEST * highest.max()))
        plain = what == _ENERGY or what in (labels or ())
        ylabel = words[what] if plain else f"power of {words[what]}"
        ax.set(xlabel=words["wavenumber"], ylabel=ylabel)
        if several:
            legend(ax, title=words["time"])
        else:
            ax.set_title(time_title(series, rows[0], words), loc="left")
    return ax


def _series(source: Any, name: str | None, grid: Any) -> tuple[FieldSeries, str]:
    """The states, and what of them is drawn."""
    field = None if name == _ENERGY else name
    series = field_series(source, field, grid, vector=field is None)
    place = series.place
    sides = sorted({side for pair in place.boundary for side in pair})
    if sides != ["Periodic"]:
        raise ValueError(
            "spectrum needs a field that is periodic along every axis, got one between "
            f"{', '.join(sides)}"
        )
    if field is None and is_incompressible(place):
        return series, _ENERGY
    # In other states "energy" is the name of a channel, or of nothing.
    series = field_series(source, name, grid)
    return series, series.name


def _power(series: FieldSeries, row: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Wavenumbers of full shells without the mean, and power in them."""
    place = series.place
    is_energy = what == _ENERGY and _ENERGY not in place.names
    velocity = velocity_of(series.states[row], place) if is_energy else series.at(row)
    finite(what, velocity, "trajectory.result says how its run ended")
    k, power = map(np.asarray, power_by_shell(jnp.asarray(velocity), place.grid))
    power = power.sum(0) / 2 if is_energy else power
    low, high = series.corners
    highest = np.pi * np.asarray(place.grid.shape) / np.subtract(high, low)
    full = (k > 0) & (k <= highest.min() * (1 + 1e-6))
    positive(f"the power of {what}", power[full].max(), "a constant has no logarithm")
    return k[full], power[full]


def _draw_slope(ax: Any, k: np.ndarray, power: np.ndarray, slope: float | int):
    """A line above the middle third of a spectrum, named by its exponent."""
    low, high = (k[0] ** (1 - part) * k[-1] ** part for part in (1 / 3, 2 / 3))
    beside = (k >= low) & (k <= high)
    beside = beside if np.sum(beside) > 1 else np.full(k.shape, True)
    line = k[beside] ** slope
    line *= 3 * np.max(power[beside] / line)
    ax.loglog(k[beside], line, color=INK, linewidth=1.0, linestyle="--")
    ax.annotate(
        f"$k^{{{Fraction(slope).limit_denominator(12)}}}$",
        (k[beside][0], line[0]),
        (0, 4),
        textcoords="offset points",
        ha="center",
        color=INK,
    )
