# %% [markdown]
# # Weigh the planets
# The masses of the giant planets from ten years of positions, as `diffsim demo` does
# for all of them. The positions are JPL's DE440, with noise of 5000 km.

# %%
import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, nbody
from diffsim.problems import load_de440


jax.config.update("jax_enable_x64", True)
table = load_de440()
names = ["Sun", "Jupiter", "Saturn", "Uranus", "Neptune"]
rows = [table.names.index(name) for name in names]
gm = np.array(table.gm)[rows]
gm[0] += table.gm.sum() - gm.sum()  # the Sun carries the inner planets along

# %% [markdown]
# Lengths in au, times in days, and G M for the masses, so that G is 1. The start has
# masses that are 20 % off.

# %%
truth = nbody.NBody(
    nbody.Bodies(gm, table.positions[0, rows], table.velocities0[rows], names=names)
)
off = jnp.array([1.0, 1.2, 0.8, 1.2, 0.8])
start = eqx.tree_at(lambda system: system.bodies.masses, truth, gm * off)

method, times = ds.Method(diffrax.Dopri8(), step=20.0), table.epochs[2::4]
sigma = 5000 / table.au_km
noise = sigma * np.random.default_rng(0).normal(size=(times.size, 5, 3))
data = table.positions[2::4, rows] + noise


def positions(system):
    return ds.simulate(system, times, method).states.positions


# %% [markdown]
# `fit` frees everything under `bodies`: five masses, positions and velocities.

# %%
fit = ds.fit(positions, start, data, noise=inference.Gaussian(sigma))
print(f"reduced chi2 {fit.chi2_reduced:.3f}")
for name, found, stderr, exact in zip(names, fit.values, fit.stderr, gm, strict=False):
    apart = (found - exact) / stderr
    print(f"{name:8s} {found:.6e} ± {stderr:.1e} au³/day², {apart:+.1f} σ from JPL's")
    assert abs(apart) < 4
assert abs(fit.chi2_reduced - 1) < 0.15

# %% [markdown]
# What would half the noise have told? The error bars halve, and so they should.

# %%
better = ds.fisher(positions, fit.model, noise=inference.Gaussian(sigma / 2))
np.testing.assert_allclose(better.stderr, np.array(fit.stderr) / 2, rtol=1e-3)
