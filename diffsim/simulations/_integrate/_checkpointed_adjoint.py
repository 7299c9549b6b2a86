"""Adjoints of fixed-step runs: `Checkpointed` and `Reversible`.

`scan_segments` of `_fixed_steps` keeps the states of `Checkpointed`. Reverse mode of an
adaptive run follows its recorded steps, see `_replay`; of one by `diffrax.diffeqsolve`
it keeps `_tuning.CHECKPOINTS` states.
"""

from typing import ClassVar

import equinox as eqx


class AbstractScanAdjoint(eqx.Module):
    """Base of adjoints of fixed steps; Diffrax's belong to `diffeqsolve`."""


class Reversible(AbstractScanAdjoint):
    r"""Reverse mode in O(state) memory: the run is stepped backwards from its end.

    ```python
    adjoint = simulations.Reversible()
    method = ds.Method(integrators.Leapfrog(), step=1.0, adjoint=adjoint)

    def height(system):  # its gradient keeps one of 1000 states
        return ds.simulate(system, 1000.0, method).states.positions[1, 2]

    eqx.filter_grad(height)(problems.outer_solar_system()).bodies.masses
    ```

    A time-symmetric step satisfies $\Phi_{-h} = \Phi_h^{-1}$, so the past need not be
    stored. The gradient equals that of the stored run to machine precision.

    **Good values:** large states (N-body with N ≥ 100) and long runs. About 5 times the
    forward time, against 3 to 4 times with the past stored.

    **Raises:** `RuntimeError` where the run, stepped backwards, comes to another start
    than it had, by more than 1e-6 of the largest that the state has been (2e-3 in
    float32): rounding grows on the way back through damping, by exp(∫σ dt), and in a
    chaotic run as it does forwards, and forces may not be the same backwards. The
    gradient is NaN then where failures do not raise, as in `fit` and `sweep`.

    **Limits:** reverse mode only (mathematics of the trade: forward mode needs no
    memory to begin with); time-symmetric fixed-step solvers only, others are refused.
    """

    references: ClassVar[tuple[str, ...]] = ("arXiv:1502.03492",)


class Checkpointed(AbstractScanAdjoint):
    r"""Both modes; reverse mode stores $\sqrt n$ states and repeats the run once.

    ```python
    method = ds.Method(diffrax.Dopri5(), 0.01, adjoint=simulations.Checkpointed())

    def height(system):  # its gradient keeps 32 of 1000 states
        return ds.simulate(system, 10.0, method).states.positions[0, 1]

    eqx.filter_grad(height)(problems.figure_eight()).bodies.masses
    ```

    **Arguments**

    - `segments`: number of segments whose inside is recomputed; None takes the square
        root of the number of steps, which minimises memory.

    **Good values:** runs whose stored past does not fit; about 1.4 times the default's
    gradient time.
    """

    segments: int | None = None

    def __check_init__(self) -> None:
        if self.segments is not None and self.segments < 1:
            raise ValueError(
                f"segments must be at least 1, got {self.segments}; None chooses it"
            )
