# %% [markdown]
# # Transit times
# Two planets pass in front of their star and pull at each other, so the transits of one
# are early or late by the mass of the other. Times of transits have exact derivatives.

# %%
import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, nbody


jax.config.update("jax_enable_x64", True)

# %% [markdown]
# Orbits by their elements, near a resonance of 2 : 1, in units of AU, solar masses and
# days. The elements are those without a singularity at circles, and the observer is far
# out on the x axis.

# %%
G = nbody.G["au, Msun, day"]
MINUTE = 1 / 1440
NAMES = ["star", "inner", "outer"]


def planets(masses, h, k, longitudes):
    orbits = nbody.NonsingularElements(
        semi_major_axis=[0.1, 0.16], h=h, k=k, mean_longitude=longitudes
    )
    masses = jnp.concatenate([jnp.ones(1), masses])
    return nbody.Bodies.from_elements(masses, orbits, G=G, names=NAMES)


EPOCHS = {"inner": range(12), "outer": range(6)}
METHOD = ds.Method(diffrax.Dopri8(), step=0.1)


def transits(model):
    """Twelve of the inner planet and six of the outer one."""
    system = nbody.NBody(planets(**model), nbody.Gravity(G))
    found = nbody.transit_times(
        system, EPOCHS, until=145.0, observer=(1, 0, 0), method=METHOD
    )
    return found.times


# %%
truth = {
    "masses": jnp.array([2e-5, 4e-5]),
    "h": jnp.array([0.01, -0.02]),
    "k": jnp.array([0.02, 0.01]),
    "longitudes": jnp.array([1.0, 2.5]),
}
calm = {**truth, "masses": jnp.zeros(2)}
early = jax.tree.map(lambda a, b: (a - b) / MINUTE, transits(truth), transits(calm))
for name, minutes in early.items():
    print(f"{name}: later by", np.round(minutes, 1), "minutes for the other's pull")

# %% [markdown]
# Weigh them from times that are good to a second, beginning at masses half as large.

# %%
SECOND = MINUTE / 60
noise = inference.Gaussian(SECOND)
keys = iter(jax.random.split(jax.random.key(1)))
data = jax.tree.map(
    lambda t: t + SECOND * jax.random.normal(next(keys), t.shape), transits(truth)
)
start = {**truth, "masses": 0.5 * truth["masses"]}
fit = ds.fit(transits, start, data, noise=noise)
print(fit)

# %% [markdown]
# The times are roots, so their derivatives are exact. Compare differences of runs.

# %%
slope = jax.jacfwd(transits)(truth)["outer"]["masses"][-1, 0]
step = 1e-7
heavier, lighter = (
    transits({**truth, "masses": truth["masses"] + side * jnp.array([step, 0.0])})
    for side in (1, -1)
)
differences = (heavier["outer"][-1] - lighter["outer"][-1]) / (2 * step)
np.testing.assert_allclose(slope, differences, rtol=1e-5)
stderr = dict(zip(fit.names, fit.stderr, strict=True))
for i, error in enumerate(fit.model["masses"] - truth["masses"]):
    assert abs(error) < 4 * stderr[f"masses[{i}]"] < 0.3 * truth["masses"][i]
