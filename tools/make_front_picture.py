"""Make docs/images/front.png: a field, an orbit fit and a corner plot.

python tools/make_front_picture.py
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, nbody, pde, plots


jax.config.update("jax_enable_x64", True)

PATH = pathlib.Path(__file__).resolve().parents[1] / "docs" / "images" / "front.png"
G, METERS_PER_SECOND = nbody.G["au, Msun, day"], 149_597_870_700 / 86_400
NIGHTS = np.sort(np.random.default_rng(0).uniform(0, 100, 40))
SIGMA = 8.0


def wake():
    """Vortices behind a cylinder."""
    grid = pde.Grid((384, 96), (0.0, 0.0), (4.0, 1.0))
    cylinder = pde.Obstacle(pde.Ball((0.6, 0.49), 0.1), penalization_time=0.005)
    sides = (pde.Inflow((1.0, 0.0)), pde.Outflow()), pde.FreeSlip()
    flow = pde.IncompressibleFlow(0.002, grid, sides, obstacle=cylinder)
    return ds.simulate(flow, [0.0, 14.0])


def velocity(model, times=NIGHTS):
    """Radial velocity of a star with a planet."""
    orbit = nbody.NonsingularElements(
        semi_major_axis=model["a"][None],
        h=model["h"][None],
        k=model["k"][None],
        mean_longitude=model["λ"][None],
    )
    masses = jnp.stack([jnp.ones(()), model["m"]])
    system = nbody.NBody(
        nbody.Bodies.from_elements(masses, orbit, G=G), nbody.Gravity(G)
    )
    states = ds.simulate(system, times).states
    return METERS_PER_SECOND * states.velocities[:, 0, 0]


def main():
    truth = {"m": 2e-3, "a": 0.12, "h": 0.32, "k": 0.22, "λ": 1.0}
    truth = {name: jnp.asarray(value) for name, value in truth.items()}
    data = velocity(truth) + SIGMA * np.random.default_rng(1).normal(size=40)
    fit = ds.fit(velocity, truth, data, noise=inference.Gaussian(SIGMA))
    figure = plots.sheet((10.0, 6.6))
    above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.6))
    with plots.look():
        top = above.subplots()
        left, right = below.subfigures(1, 2, width_ratios=(1.25, 1.0))
        folded = left.subplots()
    plots.field(wake(), "vorticity", limits=(-15, 15), ax=top)
    top.set_title("")
    period = 2 * np.pi * float(fit.model["a"] ** 3 / G) ** 0.5
    dense = np.linspace(0.0, 2 * period, 400)
    curve = dense, velocity(fit.model, dense)
    plots.phase_folded(NIGHTS, data, period, sigma=SIGMA, model=curve, ax=folded)
    folded.set(ylabel="radial velocity [m/s]", xlabel=f"phase, period {period:.2f} d")
    plots.corner(fit, names=["h", "k", "m"], ax=right)
    figure.savefig(PATH, dpi=120)


if __name__ == "__main__":
    main()
