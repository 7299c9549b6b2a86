"""Ensembles of five bodies and of Lorenz' equations, each number beside a check.

Lengths λ times as long with masses λ³ times as heavy make every state of the bodies λ
times as large; so do, for Lorenz' equations, a start λ times as far and products 1/λ
times as strong. The sum L of the squares of a final state is then of degree 2, and by
Euler's theorem, with d the parameters times their degrees and F the Fisher information,
d·∇L = 2L and dᵀFd = L.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import diffsim as ds
from diffsim import integrators, nbody
from diffsim.sweeps import sweep

from .._harness import Row, deviation
from . import _five_bodies as five
from ._devices import FLOPS_A_PAIR, share_of_flops


#: Runs that are compared with what is known of them.
_COMPARED = 8
#: Of an adaptive run; its derivatives keep a record of so many.
_MAX_STEPS = 512


class Ensemble(NamedTuple):
    """Systems that differ in the parameters `over`, by the number of them.

    - `simulate`: final state and number of steps of a model, by a method, at a time.
    - `degrees`: of the symmetry, for every path of `over`.
    - `error`: of the first states, and what they are compared with.
    - `methods`: by `"fixed"` and `"adaptive"` steps.
    - `flops`: of one evaluation of the rate; `size`: of the state.
    """

    name: str
    model: Callable[[], Any]
    over: Callable[[int], dict[str, np.ndarray]]
    simulate: Callable[[Any, ds.Method, float], tuple[Any, Any]]
    degrees: dict[str, int]
    error: Callable[[dict[str, np.ndarray], Any, float], float]
    reference: str
    methods: dict[str, ds.Method]
    flops: int
    size: int


def _planets(model: Any, method: ds.Method, end: float) -> tuple[Any, Any]:
    masses, size = model["masses"], model["size"]
    _, x, v = five.arrays(five.start())
    system = nbody.NBody(nbody.Bodies(masses, size * x, size * v))
    trajectory = ds.simulate(system, end, method)
    return trajectory.states, trajectory.stats["num_steps"]


def _planet_parameters(runs: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    masses = five.MASSES * random.uniform(0.8, 1.2, (runs, 5))
    return {"masses": masses, "size": random.uniform(0.9, 1.1, runs)}


def _energy_error(over: dict[str, np.ndarray], states: Any, end: float) -> float:
    masses, size = over["masses"], over["size"][:, None, None]
    _, x, v = five.arrays(five.start())
    before = _energy(masses, size * x, size * v)
    after = _energy(masses, states.positions, states.velocities)
    return float(np.abs(after / before - 1).max())


def _energy(masses: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(5, 1)
    distances = np.linalg.norm(x[:, i] - x[:, j], axis=-1)
    potential = (masses[:, i] * masses[:, j] / distances).sum(1)
    return 0.5 * (masses * (v**2).sum(2)).sum(1) - potential


class Lorenz(ds.AbstractSimulation):
    """x' = 10 (y − x), y' = ρx − y − c xz, z' = c xy − 8z/3; c = 1 in the books."""

    start: jax.Array
    rho: jax.Array
    coupling: jax.Array
    t0: float = 0.0

    def initial_state(self) -> jax.Array:
        return self.start

    def terms(self) -> diffrax.ODETerm:
        return diffrax.ODETerm(
            lambda t, y, model: jnp.stack(_lorenz_rate(y, model.rho, model.coupling))
        )

    def default_method(self) -> ds.Method:
        return ds.Method(diffrax.Tsit5())


def _lorenz_rate(y: Any, rho: Any, coupling: Any) -> list[Any]:
    x, y, z = y
    return [10 * (y - x), (rho - coupling * z) * x - y, coupling * x * y - 8 / 3 * z]


def _lorenz(model: Lorenz, method: ds.Method, end: float) -> tuple[Any, Any]:
    trajectory = ds.simulate(model, end, method)
    return trajectory.states, trajectory.stats["num_steps"]


def _lorenz_parameters(runs: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "start": [1.0, 1.0, 20.0] + random.normal(size=(runs, 3)),
        "rho": random.uniform(20.0, 30.0, runs),
        "coupling": random.uniform(0.9, 1.1, runs),
    }


def _lorenz_error(over: dict[str, np.ndarray], states: Any, end: float) -> float:
    exact = [
        scipy.integrate.solve_ivp(
            lambda t, y, *numbers: _lorenz_rate(y, *numbers),
            (0.0, end),
            start,
            method="DOP853",
            rtol=1e-12,
            atol=1e-12,
            args=numbers,
        ).y[:, -1]
        for start, *numbers in zip(
            over["start"], over["rho"], over["coupling"], strict=True
        )
    ]
    return deviation(states, np.array(exact))


FIVE_BODIES = Ensemble(
    "5 bodies",
    lambda: {"masses": jnp.array(five.MASSES), "size": jnp.array(1.0)},
    _planet_parameters,
    _planets,
    {"masses": 3, "size": 1},
    _energy_error,
    "the energy at the start",
    {"fixed": ds.Method(integrators.Leapfrog(), step=five.STEP)}
    | {"adaptive": ds.Method(diffrax.Dopri8(), max_steps=_MAX_STEPS)},
    5 * 4 * FLOPS_A_PAIR,
    30,
)
LORENZ = Ensemble(
    "Lorenz' equations",
    lambda: Lorenz(jnp.ones(3), jnp.array(28.0), jnp.array(1.0)),
    _lorenz_parameters,
    _lorenz,
    {"start": 1, "rho": 0, "coupling": -1},
    _lorenz_error,
    "SciPy's DOP853",
    {"fixed": ds.Method(diffrax.Tsit5(), step=0.005)}
    | {"adaptive": ds.Method(diffrax.Tsit5(), max_steps=_MAX_STEPS)},
    10,
    3,
)


def ensemble_rows(
    ensemble: Ensemble,
    steps: str,
    runs: int,
    end: float,
    end_of_derivatives: float,
    tiny: bool,
) -> dict[str, Callable[[], Row]]:
    """Runs, their gradients and their Fisher information; `steps`: fixed, adaptive."""
    ends = {"run": end, "gradient": end_of_derivatives, "fisher": end_of_derivatives}
    if tiny:
        runs, ten_steps = 32, 10 * ensemble.methods["fixed"].step
        ends = dict.fromkeys(ends, ten_steps) if steps == "fixed" else ends
    row = functools.partial(_row, ensemble, steps, runs)
    return {kind: functools.partial(row, kind, end) for kind, end in ends.items()}


def _row(ensemble: Ensemble, steps: str, runs: int, kind: str, end: float) -> Row:
    """The whole call of `sweep`, the second time."""
    method, over = ensemble.methods[steps], ensemble.over(runs)
    directions = _directions(ensemble, over)

    def predict(model):
        state, count = ensemble.simulate(model, method, end)
        return {"end": _squares(state) if kind == "gradient" else state}, count

    def call():
        derivative = None if kind == "run" else kind
        return sweep(predict, ensemble.model(), over, derivative=derivative)

    first = call()
    failed = np.flatnonzero(~first.successful)
    if failed.size:  # `failures` would spell out each
        status = jax.tree.map(lambda x: jnp.asarray(x[failed[0]]), first.status)
        raise RuntimeError(f"{failed.size} of {runs} failed: {ds.RESULTS[status]}")
    begin = time.perf_counter()
    swept = call()
    seconds = time.perf_counter() - begin
    states, counts = swept.outputs
    if kind == "run":
        compared = jax.tree.map(lambda x: x[:_COMPARED], (over, states["end"]))
        check = ensemble.error(*compared, end), ensemble.reference
    else:
        check = _euler_error(swept, directions, kind), "Euler's theorem"
    taken, solver = int(counts.sum()), type(method.solver).__name__
    # A gradient counts as three runs, a tangent as two.
    work = {"run": 1, "gradient": 3, "fisher": 1 + 2 * directions.shape[1]}[kind]
    flops = work * taken * _flops_a_step(method.solver, ensemble)
    stats = {key: swept.stats[key] for key in ("run_seconds", "order", "chunks")}
    return Row(
        f"{kind} of {runs} systems of {ensemble.name}, float64, {taken / runs:.0f} "
        f"{steps} steps of {solver}",
        taken / seconds,
        unit="system steps/s",
        seconds=seconds,
        error=check[0],
        reference=check[1],
        compile_seconds=first.stats["compile_seconds"],
        details=stats | share_of_flops(flops, stats["run_seconds"], jnp.float64),
    )


def _squares(state: Any) -> Any:
    """The sum of the squares of all numbers, of runs side by side for each."""
    return sum(jnp.sum(x**2) for x in jax.tree.leaves(state))


def _flops_a_step(solver: diffrax.AbstractSolver, ensemble: Ensemble) -> int:
    """Of the rates and, of Runge–Kutta methods, of the sums of stage derivatives."""
    if not isinstance(solver, diffrax.AbstractERK):
        return ensemble.flops
    # Both methods end with the rate that the next step begins with.
    tableau = solver.tableau
    weights = sum(map(np.count_nonzero, (*tableau.a_lower, tableau.b_error)))
    return len(tableau.a_lower) * ensemble.flops + 2 * ensemble.size * weights


def _directions(ensemble: Ensemble, over: dict[str, np.ndarray]) -> np.ndarray:
    """Parameters of every run times their degrees."""
    return _rows([n * over[path] for path, n in ensemble.degrees.items()])


def _rows(arrays: list[np.ndarray]) -> np.ndarray:
    """All numbers of a run side by side."""
    return np.concatenate([x.reshape(len(x), -1) for x in arrays], axis=1)


def _euler_error(swept: Any, directions: np.ndarray, kind: str) -> float:
    """By how much Euler's theorem fails, in the worst of all runs."""
    ends, derivative = swept.outputs[0]["end"], swept.derivative
    if kind == "gradient":
        slopes = _rows([by_path[0]["end"] for by_path in derivative.values()])
        product, squares = (directions * slopes).sum(1) / 2, ends
    else:
        product = ((directions[:, None] @ derivative)[:, 0] * directions).sum(1)
        squares = (_rows(jax.tree.leaves(ends)) ** 2).sum(1)
    return float(np.abs(product / squares - 1).max())
