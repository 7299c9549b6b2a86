"""`phase_folded`: a time series over the phase of its period."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import positive, scalar
from ._series import checked_series, checked_sigma, draw_points, series_count
from ._style import INK, axes_or_new


if TYPE_CHECKING:
    import matplotlib.axes


#: Part of the neighboring periods that is repeated on either side.
_MARGIN = 0.1
_POINTS = 401


def phase_folded(
    times: Any,
    values: Any,
    period: Any,
    *,
    epoch: float = 0.0,
    sigma: Any = None,
    model: Any = None,
    label: str = "radial velocity",
    ax: Any = None,
) -> "matplotlib.axes.Axes":
    r"""Draw a time series over its phase, with error bars and a model.

    $$\phi = \frac{t - t_0}{P} \bmod 1$$

    A signal of this period lies on one curve; one of another is smeared out. Hollow
    points repeat what lies beyond the ends, a tenth of a period on either side.

    ```python
    def fitted(t):
        return 56 * jnp.sin(2 * np.pi * t / 4.2308)

    rng = np.random.default_rng(0)
    days = rng.uniform(0.0, 100.0, 40)
    speeds = fitted(days) + 5 * rng.normal(size=40)
    ax = plots.phase_folded(days, speeds, 4.2308, sigma=5.0, model=fitted)
    ax.set_ylabel("radial velocity [m/s]")
    ```

    **Arguments**

    - `times`: shape (time,), in any order.
    - `values`: radial velocities, fluxes or others, shape (time,).
    - `period`: P, in the unit of `times`.
    - `epoch`: the time $t_0$ of phase 0.
    - `sigma`: standard deviations, a number or shape (time,); None draws none.
    - `model`: a function of times, shape (time,), which is evaluated over the period
        that begins at `epoch`; or a pair of times and values, shape (time,) each, which
        are folded as the data are.
    - `label`: of the vertical axis, with its unit: "radial velocity [m/s]".
    - `ax`: Matplotlib axes to draw into, those of an earlier call for a second
        instrument; None makes a figure.

    **Returns:** the axes.

    **Raises:** `ValueError` for shapes that do not fit, and for a period that is not
        positive; `ImportError` with what to install where Matplotlib is missing.

    **Limits:** what else is in the data, other planets say, is to be subtracted before
    (convenience).
    """
    times, values = checked_series("values", times, values)
    sigma = checked_sigma(sigma, values)
    positive("period", scalar("period", period))
    ax = axes_or_new(ax, (4.8, 3.2))
    phase = np.mod((times - epoch) / period, 1)
    if callable(model):
        x = np.linspace(0, 1, _POINTS)
        _, y = checked_series("model(times)", x, model(epoch + period * x))
    elif model is not None:
        when, y = checked_series("values of model", *model)
        x = np.mod((when - epoch) / period, 1)
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    if model is not None:
        # One period, and of its neighbors as much as is shown.
        line = {"color": INK, "linewidth": 1.2, "zorder": 1.5}
        ax.plot(np.concatenate([x - 1, x, x + 1]), np.tile(y, 3), **line)
    number = series_count(ax)
    draw_points(ax, phase, values, sigma, number=number)
    for shift, beyond in ((1, phase < _MARGIN), (-1, phase > 1 - _MARGIN)):
        error = None if sigma is None else sigma[beyond]
        x, y = phase[beyond] + shift, values[beyond]
        draw_points(ax, x, y, error, number=number, repeated=True)
    ax.set(xlabel=f"phase, period {period:.6g}", ylabel=label)
    ax.set_xlim(-_MARGIN, 1 + _MARGIN)
    return ax
