"""Runs of a sweep: grids, Latin hypercubes, Sobol points, draws of a prior."""

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from .._validation import as_jax_takes, compile_time_eval, count
from ._sampled_ranges import clip_to_open_interval, sampled_ranges
from ._swept_parameters import is_key


def grid(axes: Any = None, /, **named: Any) -> dict[str, np.ndarray | Array]:
    """The product of axes: all combinations, the last axis varying fastest.

    ```python
    def period(pendulum):
        return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

    lengths, gravities = np.linspace(0.1, 2.0, 20), np.array([1.62, 3.71, 9.81])
    over = sweeps.grid(length=lengths, g=gravities)
    model = {"length": jnp.array(1.0), "g": jnp.array(1.0)}
    ds.sweep(period, model, over).outputs.reshape(lengths.size, gravities.size)
    ```

    **Arguments:** `axes`, a mapping of paths to values, shape (value, ...) each; or
    `named`, the same as keywords, where a path is a Python name.

    **Returns:** paths to arrays with one leading run axis, for `sweep(over=...)`.

    **Raises:** `ValueError` for an axis named twice, or one that is not an array of at
    least one value.
    """
    axes = axes or {}
    repeated = set(axes) & set(named)
    if repeated:
        raise ValueError(f"grid got {sorted(repeated)} in the mapping and as keywords")
    columns = {
        path: x if is_key(x) else np.asarray(as_jax_takes(f"grid axis {path!r}", x))
        for path, x in {**axes, **named}.items()
    }
    for path, values in columns.items():
        if values.ndim == 0 or values.size == 0:
            raise ValueError(
                f"grid axis {path!r} must have shape (value, ...) with at least one "
                f"value, got shape {values.shape}"
            )
    numbers = np.indices([len(values) for values in columns.values()])
    return {
        path: values[index.reshape(-1)]
        for (path, values), index in zip(columns.items(), numbers, strict=True)
    }


def latin_hypercube(free: Any, runs: Any, *, seed: Any) -> dict[str, np.ndarray]:
    r"""A Latin hypercube sample: each of n intervals of every axis has one point of n.

    ```python
    def period(pendulum):
        return 2 * np.pi * jnp.sqrt(pendulum["length"] / pendulum["g"])

    free = {"length": ds.Free(bounds=(0.1, 10.0), transform="log"), "g": (9.78, 9.83)}
    over = sweeps.latin_hypercube(free, 64, seed=0)
    model = {"length": jnp.array(1.0), "g": jnp.array(9.81)}
    ds.sweep(period, model, over).outputs.mean()
    ```

    The intervals have equal probability: equal lengths between two bounds, equal
    ratios with `transform="log"`, quantiles of a prior. Means over the sample of what
    is a sum of functions of single parameters have an error far below that of
    independent draws.

    **Arguments**

    - `free`: paths to ranges, as `fit` takes them: a `ds.Free` with two `bounds`, with
        a `prior`, or with a prior and bounds, which is the prior truncated. With a
        `transform` bounds alone are uniform in the transformed parameter, and a prior
        is truncated to where the transform is defined. Or, in short, a pair (lower,
        upper), or a distribution of NumPyro or of `scipy.stats`. An array of bounds, or
        of means, stands for an array: the numbers of a run have the shape of the range.
    - `runs`: how many points n.
    - `seed`: a nonnegative integer; the same one gives the same sample.

    **Returns:** paths to arrays, doubles of shape (run, ...), for `sweep(over=...)`.

    **Good values:** for an emulator 10 runs for each number that varies (Loeppky, Sacks
    & Welch 2009, doi 10.1198/TECH.2009.08040).

    **Raises:** `ValueError` for a range that lacks a bound, a prior without a quantile
    function (`icdf`), as those of Distrax, and a parameter that is `tied`.

    **References:** McKay, Beckman & Conover 1979, doi 10.1080/00401706.1979.10489755.
    """
    return _map_cube(_latin_points, free, runs, seed)


def sobol(free: Any, runs: Any, *, seed: Any) -> dict[str, np.ndarray]:
    r"""Points of a scrambled Sobol sequence: even in all axes together.

    ```python
    def area(box):
        return box["sides"][0] * box["sides"][1]

    over = sweeps.sobol({"sides": (jnp.zeros(2), jnp.array([1.0, 2.0]))}, 256, seed=1)
    ds.sweep(area, {"sides": jnp.ones(2)}, over).outputs.mean()  # 1/2
    ```

    Means over n points of smooth functions have an error of $n^{-3/2}$ but for
    logarithms; that of independent draws is $n^{-1/2}$. A larger sample with the same
    `free` and `seed` begins with the smaller one, so that runs can be added.

    **Arguments:** `free`, `runs` and `seed` as in `latin_hypercube`; `seed` is that of
    the scrambling.

    **Returns:** paths to arrays, doubles of shape (run, ...), for `sweep(over=...)`.

    **Good values:** a power of two for `runs`: only then does every interval have its
    share of the points; others are allowed, and their error falls more slowly.

    **Raises:** `ValueError` as `latin_hypercube`, and for more than 21201 numbers.

    **References:** Joe & Kuo 2008, doi 10.1137/070709359 (directions); Matoušek 1998,
    doi 10.1006/jcom.1998.0489 (the scrambling: linear, and a digital shift); Owen 1997,
    doi 10.1214/aos/1031594731 (the error of scrambled points).
    """
    return _map_cube(_sobol_points, free, runs, seed)


def from_prior(free: Any, runs: Any, *, seed: Any) -> dict[str, np.ndarray]:
    """Independent draws from the prior, uniform where there are only bounds.

    ```python
    t = jnp.linspace(0.0, 3.0, 40)

    def decay(model):
        return model["height"] * jnp.exp(-model["rate"] * t)

    free = {"height": (1.0, 3.0), "rate": ds.Free(bounds=(0, None), prior=(0.7, 0.5))}
    over = sweeps.from_prior(free, 100, seed=0)  # all rates are positive
    curves = ds.sweep(decay, {"height": 2.0, "rate": 0.7}, over).outputs
    np.percentile(curves, [16, 84], axis=0)  # what the prior predicts
    ```

    **Arguments:** `free`, `runs` and `seed` as in `latin_hypercube`. A distribution
    needs no quantile function here: any with `sample(key, sample_shape)`, as joint ones
    of NumPyro, or `sample(seed=..., sample_shape=...)`, as those of Distrax, will do;
    within bounds those draws are kept that lie inside.

    **Returns:** paths to arrays, doubles of shape (run, ...), for `sweep(over=...)`.

    **Raises:** `ValueError` for a range that is none, a parameter that is `tied`, and
    bounds in which the prior hardly ever lies.
    """
    runs, random = count("runs", runs), np.random.default_rng(count("seed", seed, 0))
    with _double_precision():
        ranges = sampled_ranges(free)
        return {path: span.draw(random, runs) for path, span in ranges.items()}


def _map_cube(
    points: Callable[[int, int, np.random.Generator], np.ndarray],
    free: Any,
    runs: Any,
    seed: Any,
) -> dict[str, np.ndarray]:
    """Points of the unit cube, each path's columns mapped by its quantiles."""
    runs, random = count("runs", runs), np.random.default_rng(count("seed", seed, 0))
    samples, begin = {}, 0
    with _double_precision():
        ranges = sampled_ranges(free)
        cube = points(runs, sum(x.size for x in ranges.values()), random)
        cube = clip_to_open_interval(cube)
        for path, span in ranges.items():
            if span.quantile is None:
                raise ValueError(
                    f"free[{path!r}] must have a prior of single numbers with a "
                    "quantile function, icdf as distributions of NumPyro or ppf as "
                    "those of scipy.stats, and a cdf if there are bounds; or give "
                    "bounds alone, or use sweeps.from_prior"
                )
            columns = cube[:, begin : begin + span.size]
            samples[path] = span.quantile(columns.reshape(-1, *span.shape))
            begin += span.size
    return samples


def _latin_points(runs: int, size: int, random: np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc

    return qmc.LatinHypercube(
        size, **_generator_argument(qmc.LatinHypercube, random)
    ).random(runs)


def _sobol_points(runs: int, size: int, random: np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc

    sequence = qmc.Sobol(
        size, bits=_SOBOL_BITS, **_generator_argument(qmc.Sobol, random)
    )
    # SciPy warns of numbers that are no powers of two.
    points = sequence.random_base2((runs - 1).bit_length())[:runs]
    # To the middle of their cells, so that none is 0.
    return points + 2.0 ** -(_SOBOL_BITS + 1)


#: Digits of the points: SciPy's default, and enough for a billion of them.
_SOBOL_BITS = 30


def _generator_argument(engine: Any, random: np.random.Generator) -> dict[str, Any]:
    """The generator, by the name that this release of SciPy has for it."""
    is_new = "rng" in inspect.signature(engine).parameters
    return {"rng" if is_new else "seed": random}


@contextlib.contextmanager
def _double_precision():
    """Distributions and transforms by JAX in float64, also where that is not enabled.

    Points that differ by less than a float32 resolves would come out equal.
    """
    with compile_time_eval(), jax.enable_x64(True):
        yield
