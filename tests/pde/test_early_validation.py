"""Invalid input raises where it is made."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import diffsim as ds
from diffsim import pde


GRID = pde.Grid(8)
X = GRID.centers[0]
FLAT = pde.Grid((4, 4))
SLIP = pde.FreeSlip()


def evolved(law, initial: Any = X, walls: Any = None):
    return pde.Evolution(law, initial, GRID, walls)


def written(t, x, u):
    u[0] = 1
    return u


def water(walls):
    return evolved(pde.ShallowWater(1.0), jnp.stack([1 + X, 0 * X]), walls)


def gas(walls):
    law = pde.Euler(1.4)
    return evolved(law, law.state(1 + X, 0.0, 1.0), walls)


HALF = jnp.ones(8, jnp.float16)
CASES = {
    "math.sin": (
        lambda: evolved(pde.Diffusion(1.0), lambda x: math.sin(x[0])),
        "initial makes a Python number .* jnp.sin for math.sin",
    ),
    "if of an array": (
        lambda: evolved(pde.Diffusion(1.0), lambda x: 1 if x[0] > 0 else x[0]),
        "initial decides by a value .* jnp.where",
    ),
    "half precision": (
        lambda: evolved(pde.Diffusion(1.0), HALF),
        "initial must be float32 or float64, got float16",
    ),
    "bfloat16": (
        lambda: evolved(pde.Burgers(), HALF.astype(jnp.bfloat16)),
        "initial must be float32 or float64, got bfloat16",
    ),
    "half precision of a flow": (
        lambda: pde.IncompressibleFlow(
            1.0, FLAT, SLIP, initial=jnp.ones((2, 4, 4), jnp.float16)
        ),
        "initial must be float32 or float64, got float16",
    ),
    "half precision of a grid": (
        lambda: pde.Grid(8, 0.0, jnp.float16(2)),
        "must be float32 or float64, got float16",
    ),
    "NaN at a wall": (
        lambda: pde.Dirichlet(jnp.nan),
        "value of a boundary must be finite",
    ),
    "infinity that flows in": (
        lambda: pde.Inflow((1.0, np.inf)),
        "value of a boundary must be finite",
    ),
    "NaN of a function at a wall": (
        lambda: evolved(
            pde.Diffusion(1.0),
            X,
            (pde.Neumann(), pde.Dirichlet(lambda t, x: jnp.log(-1.0 - t))),
        ),
        r"value at the upper side of axis 0 must be finite, .* at t = 0",
    ),
    "a vacuum at a wall": (
        lambda: gas(pde.Dirichlet(0.0)),
        "lower side of axis 0 must have a positive density, got 0.0",
    ),
    "no pressure flows in": (
        lambda: gas((pde.ReflectingWall(), pde.Inflow((1.0, 0.0, -1.0)))),
        "upper side of axis 0 must have a positive pressure, got -1.0",
    ),
    "no pressure of a function": (
        lambda: gas(
            (pde.ReflectingWall(), pde.Inflow(lambda t, x: jnp.full((3, 1), t)))
        ),
        "upper side of axis 0 must have a positive density, got 0.0",
    ),
    "no water flows in": (
        lambda: water((pde.Inflow((0.0, 1.0)), pde.Outflow())),
        "lower side of axis 0 must have a positive depth",
    ),
    "a grid of True": (lambda: pde.Grid(True), "positive ints.*got True"),
    "a grid of (True, 4)": (lambda: pde.Grid((True, 4)), "positive ints"),
    "damping that drives": (
        lambda: pde.Wave(1.0, -0.1),
        "damping must not be negative, got -0.1",
    ),
    "D of another grid": (
        lambda: evolved(pde.Diffusion([1.0, 2.0])),
        r"diffusivity must be a number or have the grid .* got shape \(2,\)",
    ),
    "D with channels": (
        lambda: evolved(pde.Diffusion(jnp.ones((1, 8)))),
        r"diffusivity must be a number or have the grid .* got shape \(1, 8\)",
    ),
    "a speed of another grid": (
        lambda: evolved(pde.Wave(jnp.ones(5)), jnp.zeros((2, 8))),
        r"speed must be .* got shape \(5,\)",
    ),
    "a source of another grid": (
        lambda: evolved(pde.Burgers(source=jnp.ones(3))),
        r"source must be .* got shape \(3,\); before those axes there are 1 ch",
    ),
    "diffusivities of another grid": (
        lambda: evolved(pde.GrayScott(0.1, 0.1, (1.0, jnp.ones(3))), jnp.ones((2, 8))),
        r"diffusivities must be .* got shape \(3,\)",
    ),
    "a source of other channels": (
        lambda: evolved(
            pde.Euler(source=jnp.ones((2, 8))), jnp.ones((3, 8)) + jnp.eye(3, 8) * 9
        ),
        r"source must be .* got shape \(2, 8\)",
    ),
    "a write into u": (
        lambda: ds.simulate(evolved(pde.Diffusion(1.0, written)), 0.1),
        r"source writes into an array.* u.at\[0\].set",
    ),
    "a write into x of a wall": (
        lambda: evolved(
            pde.Diffusion(1.0), X, pde.Dirichlet(lambda t, x: written(t, None, x))
        ),
        r"the value of a boundary writes into an array",
    ),
    "energy of heat": (
        lambda: pde.energy(evolved(pde.Diffusion(1.0)), X[None]),
        "Wave, Schrodinger, Euler, ShallowWater .* got Evolution of Diffusion",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_invalid_input_raises_where_it_is_made(name):
    call, sentence = CASES[name]
    with pytest.raises(ValueError, match=sentence):
        call()


def test_valid_input_is_accepted():
    taken = [
        evolved(pde.Diffusion(1 + X, jnp.ones((1, 8)))),
        evolved(pde.Diffusion(jnp.ones((1,)), 1.0)),
        evolved(pde.Wave(1 + X, 0.0), jnp.zeros((2, 8))),
        gas((pde.Inflow((1.0, 0.0, 1.0)), pde.Neumann(0.0))),
        gas(pde.Dirichlet(lambda t, x: jnp.ones((3, 1)))),
        water((pde.Inflow((1.0, -1.0)), pde.Outflow())),
    ]
    assert [one.initial.shape[-1] for one in taken] == [8] * len(taken)
