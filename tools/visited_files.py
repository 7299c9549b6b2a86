"""Prints how many files of diffsim a first call visits, those of imports left out.

`python tools/visited_files.py --list` names them. A file is visited where a function
in it runs; equations and parameters that are declared in the task count as well.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, pde


ROOT = pathlib.Path(ds.__file__).parent


class Decay(ds.AbstractSimulation):
    """ẏ = −k y."""

    k: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(2)

    def terms(self):
        return diffrax.ODETerm(lambda t, y, args: -args.k * y)

    def default_method(self):
        return ds.Method(diffrax.Tsit5())


def simulate() -> Any:
    """An equation of one's own by its default method."""
    return ds.simulate(Decay(jnp.asarray(1.0)), 1.0)


def diffusion() -> Any:
    """Heat between walls by its default method."""
    rod = pde.Evolution(pde.Diffusion(0.1), jnp.ones(16), pde.Grid(16), pde.Dirichlet())
    return ds.simulate(rod, 0.1)


def fit() -> Any:
    """Two numbers from data, by a prediction in closed form."""
    x = np.linspace(0.0, 1.0, 8)
    noise = inference.Gaussian(0.1)
    return ds.fit(lambda p: p[0] + p[1] * x, jnp.ones(2), 2 * x, noise=noise)


def visited(task: Callable[[], Any]) -> list[str]:
    """Files of diffsim in which a function runs during `task`, its imports done."""
    found: set[str] = set()

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            path = pathlib.Path(code.co_filename)
            if ROOT in path.parents:
                found.add(str(path.relative_to(ROOT)))

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    names = parser.parse_args().list
    for task in (simulate, diffusion, fit):
        files = visited(task)
        print(f"{task.__name__}: {len(files)}")
        if names:
            print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main()
