# %% [markdown]
# # Transit times
# Two planets pass before their star and pull at each other, so the transits of one are
# early or late by the mass of the other. A transit is an event: found on the way, and
# differentiated like everything else.

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
# days. The observer is far out on the x axis, and the elements are those without a
# singularity at circles.

# %%
G = 2.959122082855911e-4
MINUTE = 1 / 1440


def planets(masses, h, k, longitudes):
    orbits = nbody.NonsingularElements(
        semi_major_axis=[0.1, 0.16], h=h, k=k, mean_longitude=longitudes
    )
    return nbody.Bodies.from_elements(
        jnp.concatenate([jnp.ones(1), masses]), orbits, G=G
    )


def passes(planet):
    """Where a planet crosses the line to the observer, on the near side."""

    def before(t, state, system):
        star, other = state.positions[0], state.positions[planet]
        return other[1] - star[1]

    return ds.simulations.Event(before, direction="up", limit=12)


METHOD = ds.Method(diffrax.Dopri8(), step=0.1)


def transits(model):
    """Twelve of the inner planet and six of the outer one."""
    system = nbody.NBody(planets(**model), nbody.Gravity(G))
    events = (passes(1), passes(2))
    run = ds.simulate(system, 140.0, METHOD, events=events)
    inner, outer = (found.times for found in run.events)
    return {"inner": inner, "outer": outer[:6]}


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
