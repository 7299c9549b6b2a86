# %% [markdown]
# # Ejection from a triple star
# Three stars too close to each other: after some encounters the lightest is thrown out.
# A little push at the start changes the speed at the end four thousand times as much.
# Its derivative is exact through all encounters, and so one can aim.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import nbody, simulations


jax.config.update("jax_enable_x64", True)

# %% [markdown]
# A pair, A and B, and C around it, in AU, solar masses and years. C gets a push at the
# start, a small velocity added to its own.

# %%
G = nbody.G["au, Msun, yr"]
METER_PER_SECOND = 1 / 4740.471  # au/yr
ORBITS = nbody.Elements(
    semi_major_axis=[1.0, 3.0],
    eccentricity=[0.1, 0.2],
    inclination=[0.0, 0.2],
    true_anomaly=[0.0, 4.9282],
)
MASSES = jnp.array([1.0, 0.8, 0.5])
STARS = nbody.Bodies.from_elements(MASSES, ORBITS, G=G, coordinates="jacobi")


def triple(push):
    stars = nbody.Bodies(MASSES, STARS.positions, STARS.velocities.at[2].add(push))
    return nbody.NBody(stars, nbody.Gravity(G))


# %% [markdown]
# The run ends when C is 20 AU from the barycenter of the pair. Its energy there gives
# the speed that it keeps far away. IAS15 shortens its steps where stars meet.


# %%
def from_pair(vectors):
    """Of C, relative to the barycenter of A and B."""
    return vectors[2] - MASSES[:2] @ vectors[:2] / MASSES[:2].sum()


def excess(t, state, system):
    return jnp.linalg.norm(from_pair(state.positions)) - 20.0


METHOD = ds.Method(nbody.IAS15())
LEAVES = simulations.Event(excess, direction="up", terminal=True, limit=1)


def escape(push):
    """Speed of C far away in km/s, and when it leaves."""
    left = ds.simulate(triple(push), 60.0, METHOD, events=LEAVES).events[0]
    x, v = from_pair(left.states.positions[0]), from_pair(left.states.velocities[0])
    energy = v @ v / 2 - G * MASSES.sum() / jnp.linalg.norm(x)
    return jnp.sqrt(2 * energy) / (1000 * METER_PER_SECOND), left.times[0]


with_slope = jax.jit(jax.value_and_grad(escape, has_aux=True))
(speed, years), slope = with_slope(jnp.zeros(3))
steepest = jnp.linalg.norm(slope) * METER_PER_SECOND
uphill = slope / jnp.linalg.norm(slope) * METER_PER_SECOND
print(f"C leaves after {years:.2f} years at {speed:.4f} km/s")
print(f"and a push of 1 cm/s changes that by {10 * steepest:.1f} m/s")

# %% [markdown]
# Differences of two runs: with long steps they miss the curvature, with short ones they
# see rounding errors, which the encounters have amplified.


# %%
def difference(step):
    more, less = (with_slope(side * step * uphill)[0][0] for side in (1, -1))
    return (more - less) / (2 * step)


for h in 10.0 ** -np.arange(1, 8):
    off = abs(difference(h) / steepest - 1)
    print(f"differences with a step of {h:.0e} m/s are off by {off:.0e}")
extrapolated = (4 * difference(1e-3) - difference(2e-3)) / 3  # to a step of zero
print(f"extrapolated to zero, by {abs(extrapolated / steepest - 1):.0e}")

# %% [markdown]
# Which push makes it leave at 8 km/s? Newton's method, along the gradient.

# %%
push = jnp.zeros(3)
for _ in range(6):
    (speed, _), slope = with_slope(push)
    print(f"{jnp.linalg.norm(push) / METER_PER_SECOND:.6f} m/s: {speed:.10f} km/s")
    push = push + (8.0 - speed) * slope / (slope @ slope)
assert abs(extrapolated / steepest - 1) < 1e-6 and abs(speed - 8.0) < 1e-7
