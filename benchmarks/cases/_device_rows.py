"""The prepared run on a GPU: its cases, the most telling first."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, integrators, pde

from .._harness import Row, compiled, deviation
from .._marked_tests import marked_tests
from ._cluster import accelerations, cluster, first_accelerations, sum_of_squares
from ._device_fields import gas, navier_stokes
from ._device_timing import Rows, called_twice, euler_check, rate_row
from ._devices import FLOPS_A_PAIR, share_of_bandwidth, share_of_flops, traffic
from ._ensembles import FIVE_BODIES, LORENZ, Ensemble, ensemble_rows


class DeviceCase(NamedTuple):
    """What one process measures: `rows(tiny)`."""

    about: str
    rows: Callable[[bool], Rows]


def _direct_sum(bodies: int, dtype: str, tiny: bool) -> Rows:
    """Of many bodies the force alone: its gradient takes as long as all the rest."""
    has_gradient, bodies = bodies < 10**6, 256 if tiny else bodies
    start = [jnp.asarray(a, dtype) for a in cluster(bodies)[:2]]
    what, rate = f"direct sum, {bodies} bodies, {dtype}", (bodies**2, "pairs/s")

    def share(runs):
        flops = runs * FLOPS_A_PAIR * bodies**2
        return lambda seconds: share_of_flops(flops, seconds, dtype)

    def run():
        program, exact = compiled(accelerations, *start), first_accelerations(*start)
        error = deviation(np.asarray(program.value)[: len(exact)], exact)
        return rate_row(what, program, rate, (error, "NumPy, float64"), share(1))

    def gradient():
        program = compiled(jax.value_and_grad(sum_of_squares, (0, 1)), *start)
        value, (by_masses, _) = program.value
        # Accelerations are linear in the masses.
        check = euler_check(value, by_masses, start[0])
        return rate_row(f"gradient of {what}", program, rate, check, share(3))

    return {"run": run, "gradient": gradient} if has_gradient else {"run": run}


def _fit(n: int, tiny: bool) -> Rows:
    """A front of Fisher, Kolmogorov, Petrovsky and Piskunov, seen twice with noise."""
    n, sigma, step = 16 if tiny else n, 1e-2, 0.05
    grid = pde.Grid((n, n))
    truth = jnp.array([2e-3, 3.0, 0.5, 0.4, 0.6])

    def front(model):
        diffusivity, growth, height, *center = model
        away = sum((x - c) ** 2 for x, c in zip(grid.centers, center, strict=True))
        law = pde.FisherKPP(diffusivity, growth)
        start = height * jnp.exp(-50 * away)
        run = pde.Evolution(law, start, grid, discretization=pde.Fourier())
        method = ds.Method(integrators.ETDRK4(), step)
        return ds.simulate(run, [0.5, 1.0], method).states

    def fit():
        scatter = np.random.default_rng(0).normal(size=(2, 1, n, n))
        data = np.asarray(jax.jit(front)(truth)) + sigma * scatter
        noise, start = inference.Gaussian(sigma), 1.2 * truth
        return called_twice(lambda: ds.fit(front, start, data, noise=noise), row)

    def row(fit, seconds):
        # Each step takes a run and a tangent, as two runs, for each number.
        runs = (int(fit.steps) + 1) * (1 + 2 * truth.size)
        moved = runs / step * traffic(front, truth)
        pulls = np.abs((fit.values - truth) / fit.stderr)
        return Row(
            f"fit of {truth.size} numbers to {2 * n**2} data of a front, float64",
            seconds,
            unit="s",
            seconds=seconds,
            error=float(np.abs(fit.values / truth - 1).max()),
            reference="the truth behind noisy data",
            details={"steps": int(fit.steps), "worst_in_sigma": float(pulls.max())}
            | share_of_bandwidth(moved, seconds),
        )

    return {"fit": fit}


def _fisher(cells: int, dense: bool, tiny: bool) -> Rows:
    """Of the start of a field that diffuses; its eigenvectors are waves."""
    n, sigma, diffusivity = 6 if tiny else cells, 0.5, 1e-3
    k2 = sum(k**2 for k in np.meshgrid(*[2 * np.pi * np.fft.fftfreq(n, 1 / n)] * 2))
    eigenvalues = np.exp(-2 * diffusivity * k2) / sigma**2
    start, noise, count = jnp.zeros((1, n, n)), inference.Gaussian(sigma), 9

    def snapshot(initial):
        law, grid = pde.Diffusion(diffusivity), pde.Grid((n, n))
        run = pde.Evolution(law, initial, grid, discretization=pde.Fourier())
        return ds.simulate(run, 1.0, ds.Method(integrators.ETDRK4(), 1.0)).states

    def matrix():
        return ds.fisher(snapshot, start, noise=noise)

    def of_matrix(fisher, seconds):
        # A factorization of as many rows as columns is most of the arithmetic.
        share = share_of_flops(4 / 3 * n**6, seconds, jnp.float64)
        first = np.fft.ifft2(eigenvalues).real.ravel()
        return row("matrix", seconds, deviation(fisher.matrix[0], first), share)

    def modes():
        return ds.fisher_operator(snapshot, start, noise=noise).modes(count)

    def of_modes(modes, seconds):
        # A product is two runs, a tangent and the way back of a gradient.
        moved = 6 * modes.products * traffic(snapshot, start)
        share = share_of_bandwidth(moved, seconds) | {"products": modes.products}
        largest = np.sort(eigenvalues.ravel())[::-1][:count]
        error = deviation(modes.eigenvalues, largest)
        return row(f"{count} leading modes", seconds, error, share)

    def row(what, seconds, error, details):
        return Row(
            f"Fisher information of {n**2} parameters, {what}, float64",
            seconds,
            unit="s",
            seconds=seconds,
            error=error,
            reference="closed form",
            details=details,
        )

    if dense:
        return {"matrix": lambda: called_twice(matrix, of_matrix)}
    return {"modes": lambda: called_twice(modes, of_modes)}


def _case(about: str, rows: Callable[..., Rows], *numbers: Any) -> DeviceCase:
    return DeviceCase(about, functools.partial(rows, *numbers))


def _sum_of(bodies: int, dtype: str) -> DeviceCase:
    about = f"Direct sum of {bodies} bodies, {dtype}."
    return _case(about, _direct_sum, bodies, dtype)


def _many(
    ensemble: Ensemble, steps: str, runs: int, end: float, derivatives: float
) -> DeviceCase:
    about = f"{runs} systems of {ensemble.name} by {steps} steps through `sweep`."
    return _case(about, ensemble_rows, ensemble, steps, runs, end, derivatives)


#: The most telling first: what does not fit into the time is left out from the end.
#: Derivatives of fixed steps keep every state, and are those of shorter runs: 12 GB.
CASES = {
    "tests": _case("Tests that are marked `gpu`.", marked_tests),
    "direct_sum_65536_float32": _sum_of(65_536, "float32"),
    "direct_sum_65536_float64": _sum_of(65_536, "float64"),
    "five_bodies_100000_fixed": _many(FIVE_BODIES, "fixed", 100_000, 2500.0, 250.0),
    "lorenz_100000_adaptive": _many(LORENZ, "adaptive", 100_000, 2.0, 2.0),
    "navier_stokes_2048": _case(
        "Flow in a plane beside exponax.", navier_stokes, (2048, 2048)
    ),
    "navier_stokes_256": _case(
        "Flow in space beside exponax.", navier_stokes, (256, 256, 256)
    ),
    "gas_4096": _case("Gas by finite volumes.", gas, 4096),
    "fisher_matrix": _case("Fisher matrix of a field.", _fisher, 99, True),
    "fisher_modes": _case("Leading modes of a field.", _fisher, 100, False),
    "fit": _case("Fit of a front.", _fit, 512),
    "direct_sum_1000000_float32": _sum_of(1_000_000, "float32"),
    "five_bodies_100000_adaptive": _many(
        FIVE_BODIES, "adaptive", 100_000, 100.0, 100.0
    ),
    "lorenz_100000_fixed": _many(LORENZ, "fixed", 100_000, 2.0, 2.0),
    "direct_sum_1000000_float64": _sum_of(1_000_000, "float64"),
    "five_bodies_1000000_fixed": _many(FIVE_BODIES, "fixed", 1_000_000, 250.0, 25.0),
    "lorenz_1000000_adaptive": _many(LORENZ, "adaptive", 1_000_000, 2.0, 2.0),
    "five_bodies_1000000_adaptive": _many(
        FIVE_BODIES, "adaptive", 1_000_000, 100.0, 100.0
    ),
    "lorenz_1000000_fixed": _many(LORENZ, "fixed", 1_000_000, 2.0, 2.0),
}
