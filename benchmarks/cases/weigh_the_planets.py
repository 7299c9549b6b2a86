"""Weighing the planets, as the demo does: its run, its Jacobian, its fit."""

import time
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from diffsim import inference
from diffsim.cli._planet_masses import (
    ExperimentSetup,
    Observations,
    Prediction,
    observed,
    wrong_start,
)
from diffsim.simulations import Method

from .._harness import Case, Effort, Row, compiled, contest, deviation, ratio


def measure(effort: Effort) -> list[Row]:
    """Ten years of ten bodies with relativity, 70 parameters, one position in ten days.

    The times of a contest are the best of many; the fit runs twice, and the second has
    nothing left to compile.
    """
    setting = ExperimentSetup(epochs=effort.size(365, 12))
    sky = observed(setting)
    predict = Prediction(setting.epochs, setting.method)
    arrays, system = _vectorized(sky)
    run = compiled(lambda vector: predict(system(vector)), arrays)
    jacobian = compiled(jax.jacfwd(lambda vector: predict(system(vector))), arrays)
    times = contest(effort, run=run.turn, jacobian=jacobian.turn)
    what = f"{sky.times[-1]:.0f} days of {len(sky.names)} bodies with relativity"
    finer = Prediction(setting.epochs, Method(setting.method.solver, step=1.0))
    exact = jax.jit(lambda vector: finer(system(vector)))(arrays)
    return [
        Row(
            f"run, {what}",
            times["run"].best,
            unit="s",
            seconds=times["run"].best,
            error=deviation(run.value, exact),
            reference="half the step",
            compile_seconds=run.compile_seconds,
            memory_bytes=run.memory_bytes,
            noise=times["run"].noise,
            away=times["run"].away,
        ),
        ratio(
            f"Jacobian in {arrays.size} numbers, {what}",
            times["jacobian"],
            times["run"],
            program=jacobian,
            peer="its own run",
        ),
        _fit(sky, setting, predict),
    ]


CASE = Case("weigh_the_planets", __doc__ or "", measure)


def _vectorized(sky: Observations) -> tuple[Any, Any]:
    """The best values as one vector, and the system of a vector."""
    vector, arrays = ravel_pytree((sky.gm, sky.positions0, sky.velocities0))
    return vector, lambda vector: sky.system(*arrays(vector))


def _fit(sky: Observations, setting: ExperimentSetup, predict: Prediction) -> Row:
    """From masses up to 50 % off. Compiling is what the first of two fits took more."""
    guess, seconds, found = wrong_start(sky, setting.seed), [], None
    for _ in range(2):
        start = time.perf_counter()
        found = inference.fit(
            predict,
            guess,
            sky.data,
            noise=inference.Gaussian(sky.sigma),
            solver=inference.LevenbergMarquardt(atol=1e-2),
        )
        jax.block_until_ready(found.stderr)
        seconds.append(time.perf_counter() - start)
    assert found is not None
    deviations = (found.values[: sky.gm.size] - sky.gm) / found.stderr[: sky.gm.size]
    chi2 = float(found.chi2_reduced)
    return Row(
        f"fit of {found.values.size} numbers to {sky.data.size} data, "
        f"{int(found.steps)} steps, χ²ν {chi2:.3f}",
        seconds[1],
        unit="s",
        seconds=seconds[1],
        compile_seconds=seconds[0] - seconds[1],
        details={
            "steps": int(found.steps),
            "chi2_reduced": chi2,
            "worst_mass_in_sigma": float(np.abs(deviations).max()),
        },
    )
