"""`FitOptions`: how long a fit may take, what it shows and where it is kept."""

import dataclasses
import math
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._progress import progress_text, show_line


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """Options of a fit; `max_steps`, `seed` and `start_scatter` may change its answer.

    ```python
    def valley(y):  # Rosenbrock's
        return jnp.stack([10 * (y[1] - y[0] ** 2), 1 - y[0]])

    options = inference.FitOptions(progress=print, checkpoint="valley.npz")
    given = {"noise": inference.Gaussian(1.0), "options": options}
    ds.fit(valley, jnp.array([-1.2, 1.0]), jnp.zeros(2), **given)
    ds.fit(valley, jnp.array([-1.2, 1.0]), jnp.zeros(2), **given)  # goes on from there
    ```

    **Arguments**

    - `max_steps`: trial steps before `RESULTS.nonlinear_max_steps_reached`.
    - `progress`: True for a line on stderr that moves, and says so while programs are
        compiled, or a function that is called after every step with a dict: `step`,
        `loss`, `remaining_sigma` (standard deviations that the Gauss-Newton step before
        it had to go, by the scatter of the residuals where that exceeds sigma; NaN in a
        descent), `gradient_norm` (of the loss by the coordinates in units of
        `Free.scale`), `rejected`, `non_finite`, `seconds`.
    - `checkpoint`: a file. The fit is written there as it goes, at most once a second
        and at its end, as `diffsim.save` writes; if the file is there at the start, the
        fit goes on from it, to the same answer as without the interruption. It has to
        be the same fit: data, noise, start, free parameters and all that `Free` says of
        them, the rest of the model, `predict` and the solver, or it is refused with the
        names of what differs. Functions count by what they do, traced operations and
        numbers, and so do the release and the settings of JAX. The loss at the point
        that was reached is evaluated again: where it is another by more than the root
        of the rounding, the file is refused with both numbers. A file that cannot be
        written is a warning.
    - `covariance`: False leaves out the Jacobian that error bars need, for models of
        thousands of parameters fitted by gradient descent.
    - `observed`: error bars by the second derivative of the log posterior at the best
        fit, which knows how far the model is from linear and the residuals from small,
        in place of the expected information.
    - `batches`: for an Optax optimizer, an iterable of arrays of row numbers, as of a
        data loader: each step sees these rows of the data only, `predict(model, rows)`
        returns their prediction, and the loss is scaled to all data. The fit ends with
        the iterable, or `max_steps`, at its last point.
    - `fixed`: paths that do not vary, for all that `free` says.
    - `solver_error`: False leaves out one run at finer steps after the fit, which says
        how much of the error bars the simulation's own error may take.
    - `seed`, `start_scatter`: with `starts=k`, the start and k − 1 others drawn around
        it with this standard deviation in units of `Free.scale`.

    `progress` and `checkpoint` are for Levenberg-Marquardt and Optax optimizers from
    one start; elsewhere the search is one compiled call.
    """

    max_steps: Any = 1000
    progress: bool | Callable[[dict[str, Any]], None] | None = None
    checkpoint: str | pathlib.Path | None = None
    covariance: bool = True
    observed: bool = False
    batches: Any = None
    fixed: Any = ()
    solver_error: bool = True
    seed: int = 0
    start_scatter: float = 0.3

    def __post_init__(self) -> None:
        check_count("max_steps", self.max_steps)

    def show(self, step: dict[str, Any]) -> None:
        """Tells `progress` about a step."""
        if callable(self.progress):
            self.progress(step)
        elif self.progress:
            show_line(_line(step))

    def begin(self) -> None:
        """Begins the line, which waits for what is compiled for the first step."""
        if self.progress is True:
            show_line(progress_text("fit", "compiling"))

    def finish(self) -> None:
        """Ends the line that moved."""
        if self.progress is True:
            print(file=sys.stderr)


def check_count(name: str, value: Any):
    """Raise `ValueError` unless `value` is an integer of at least 1."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def _line(step: dict[str, Any]) -> str:
    remaining_sigma = step["remaining_sigma"]
    lost = step["rejected"] + step["non_finite"]
    return progress_text(
        "fit",
        f"step {step['step']}",
        f"loss {step['loss']:.6g}",
        f"gradient {step['gradient_norm']:.1e}",
        "" if math.isnan(remaining_sigma) else f"{remaining_sigma:.1e} sigma to go",
        f"{lost} rejected" if lost else "",
        seconds=step["seconds"],
    )
