"""Explicit steps of fields by py-pde, compiled by Numba."""

from collections.abc import Callable

import numpy as np

from .._peers import peer


def heat_by_py_pde(u: np.ndarray, step: float, steps: int) -> Callable[[], np.ndarray]:
    """∂u/∂t = ∇²u on a square of side one, between walls of value zero."""
    heat = peer("pde").DiffusionPDE(1.0, bc={"value": 0})
    return _turn(heat, u, step, steps, periodic=False)


def phases_by_py_pde(
    u: np.ndarray, spread: float, step: float, steps: int
) -> Callable[[], np.ndarray]:
    """∂u/∂t = D ∇²u + u − u³ on a torus."""
    phases = peer("pde").AllenCahnPDE(interface_width=spread)
    return _turn(phases, u, step, steps, periodic=True)


def _turn(equation, u, step, steps, *, periodic) -> Callable[[], np.ndarray]:
    library = peer("pde")
    grid = library.CartesianGrid([[0, 1]] * u.ndim, u.shape, periodic=periodic)
    start = library.ScalarField(grid, u)
    solver = library.EulerSolver(equation, backend="numba")
    stepper = solver.make_stepper(start.copy(), step)

    def turn():
        state = start.copy()
        stepper(state, 0.0, steps * step)
        return state.data

    return turn
