"""`LocalOptimum`: the optima that several starts have found."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float


#: Starts that end so near are at one optimum: in error bars, or of the values.
_NEAR, _RELATIVE = 0.1, 1e-3


class LocalOptimum(eqx.Module):
    """An optimum of a fit from several starts.

    ```python
    t = jnp.linspace(0.0, 10.0, 60)

    def wave(m):
        return jnp.sin(m["frequency"] * t)

    start, noise = {"frequency": 1.6}, inference.Gaussian(0.1)
    fit = ds.fit(wave, start, jnp.sin(2.0 * t), noise=noise, starts=8)
    fit.optima[0].loss  # of the best of them, an inference.LocalOptimum
    ```

    **Fields:** `loss`; `values`, in the order of the names of the fit; `count`, how
    many starts have ended there.
    """

    loss: Float[Array, ""]
    values: Float[Array, " parameter"]
    count: int = eqx.field(static=True)


def local_optima(fit: Any) -> tuple[LocalOptimum, ...]:
    """The distinct ends of the starts that converged, best first."""
    if "starts_loss" not in fit.history:
        return (LocalOptimum(fit.loss, fit.values, 1),)
    losses = np.asarray(fit.history["starts_loss"])
    values = np.asarray(fit.history["starts_values"])
    good = np.asarray(fit.history["starts_converged"])
    reach = _NEAR * np.nan_to_num(np.asarray(fit.stderr), posinf=0.0)
    turn = np.asarray(fit.upper - fit.lower)
    on_circle = np.isin(np.arange(turn.size), fit.circular)
    found: list[tuple[int, int]] = []
    for i in np.flatnonzero(good):
        for k, (first, count) in enumerate(found):
            size = _RELATIVE * np.maximum(np.abs(values[first]), np.abs(values[i]))
            apart = np.abs(values[i] - values[first])
            apart = np.minimum(apart, np.where(on_circle, turn - apart, apart))
            if np.all(apart <= np.maximum(reach, size)):
                found[k] = first, count + 1
                break
        else:
            found.append((int(i), 1))
    history = fit.history
    return tuple(
        LocalOptimum(history["starts_loss"][i], history["starts_values"][i], count)
        for i, count in found
        if np.isfinite(losses[i])
    )
