"""A resumed sweep equals the uninterrupted one to the last bit, whatever is left of it.

Compiled as users' programs are, which round otherwise than those of other tests: a
stage of its own in .ci/run.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stored_springs import OVER, entry, model

import diffsim as ds
from diffsim import nbody, problems
from diffsim.sweeps import SweepOptions, sweep


pytestmark = pytest.mark.optimized


pytest.importorskip("zarr"), pytest.importorskip("xarray")


def test_no_tile_holds_runs_of_two_chunks(tmp_path):
    """Where all runs of a tile take one branch, a run depends on those beside it."""
    tiles = []

    def noted(x):
        tiles.append(sorted(np.rint(10 * np.asarray(x)).astype(int).tolist()))
        return x

    def predict(model):
        x = model["rate"]
        return jax.pure_callback(noted, x, x, vmap_method="expand_dims")

    path, options = tmp_path / "runs.zarr", SweepOptions(chunk=3)
    sweep(predict, model(), OVER, batch=8, store=path, options=options)
    first = {tuple(tile) for tile in tiles}
    assert sorted(map(set, first), key=min) == [
        {5, 6, 7},
        {8, 9, 10},
        {11, 12, 13},
        {14, 15},
    ]
    for chunk in (0, 2, 3):
        entry(path, chunk).unlink()
    tiles.clear()
    sweep(predict, model(), OVER, batch=8, store=path, options=options)
    # One run that is there is run again by itself, to compare.
    assert tiles.pop(0) == [8, 8, 8]
    assert len(tiles) == 3 and {tuple(tile) for tile in tiles} < first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("derivative", "chunk", "left"),
    [(None, 4, 20), ("gradient", 4, 1), ("gradient", None, 1)],
)
def test_orbits_are_the_same_to_the_last_bit_whatever_is_left(
    tmp_path, derivative, chunk, left
):
    """Wisdom and Holman's map has a branch that all runs of a tile take, and what its
    gradient is rounded to depends on how many tiles a program is made for.
    """
    system, path = problems.outer_solar_system(), tmp_path / "runs.zarr"
    method = ds.Method(nbody.WisdomHolman(), step=20.0)
    name, masses = "bodies.masses[Jupiter]", 1e-3 * np.linspace(0.5, 1.5, 101)
    kind = {"derivative": derivative, "options": SweepOptions(chunk=chunk)}

    def distance(system):
        states = ds.simulate(system, np.array([0.0, 3000.0]), method).states
        return jnp.sum(states.positions**2)

    def found():
        runs = sweep(distance, system, {name: masses}, store=path, **kind)
        slopes = {} if derivative is None else runs.derivative
        return runs.stats["computed"], [runs.outputs, *slopes.values()]

    _, whole = found()
    whole = [np.array(x) for x in whole]
    for file in sorted((path / "manifest").glob("0*.json"))[-left:]:
        file.unlink()
    computed, again = found()
    assert 0 < computed < 101
    assert all(map(np.array_equal, whole, again))
