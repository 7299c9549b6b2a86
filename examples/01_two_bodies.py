# %% [markdown]
# # Two bodies
# An orbit, its energy, and the derivative of where the planet is by where it began.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import integrators, nbody


jax.config.update("jax_enable_x64", True)


# %%
def system(distance):
    """A planet without mass on a circle of radius `distance` around a unit mass."""
    zero = jnp.zeros_like(distance)
    positions = jnp.stack([jnp.zeros(3), jnp.stack([distance, zero, zero])])
    velocities = jnp.stack([jnp.zeros(3), jnp.stack([zero, distance**-0.5, zero])])
    return nbody.NBody(
        nbody.Bodies([1.0, 0.0], positions, velocities, names=["Sun", "Planet"])
    )


# %% [markdown]
# Leapfrog at 100 steps a period: the energy of a light planet stays within its bound
# for a thousand periods, and comes back.

# %%
star = nbody.Bodies([1, 1e-3], [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1.1, 0]])
pair = nbody.NBody(star)
period = 2 * np.pi
leapfrog = ds.Method(integrators.Leapfrog(), step=period / 100)
run = ds.simulate(pair, period * np.arange(1001), leapfrog)
energy = nbody.energy(pair, run.states)
drift = np.abs(energy / energy[0] - 1)
print(f"relative energy error: {drift.max():.1e} at most, {drift[-1]:.1e} at the end")
assert drift.max() < 1e-3

# %% [markdown]
# On a circle the angle is $t\,a^{-3/2}$, so the planet is at
# $a(\cos t a^{-3/2}, \sin t a^{-3/2})$, and its derivative by $a$ is known.

# %%
accurate, time = ds.Method(integrators.KahanLi8(), step=0.02), 30.0


def planet(distance):
    return ds.simulate(system(distance), time, accurate).states.positions[1, :2]


def exact(distance):
    angle = time * distance**-1.5
    return distance * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


distance = jnp.array(1.2)
found, known = jax.jacfwd(planet)(distance), jax.jacfwd(exact)(distance)
print("d position / d distance, forward:", found)
print("                         reverse:", jax.jacrev(planet)(distance))
print("                           exact:", known)
np.testing.assert_allclose(found, known, rtol=1e-9)
np.testing.assert_allclose(jax.jacrev(planet)(distance), known, rtol=1e-9)
