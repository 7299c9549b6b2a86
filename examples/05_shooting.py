# %% [markdown]
# # Shooting
# A condition at either end: guess how the solution leaves the left one, run it, and
# correct the guess until it arrives. What is left at the right end is a residual with a
# simulation inside, and its root is differentiated without looking into the search.

# %%
import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import implicit


jax.config.update("jax_enable_x64", True)


# %% [markdown]
# Bratu's problem, $u'' + \lambda e^u = 0$ with $u(0) = u(1) = 0$: the temperature of a
# slab that heats itself the more the hotter it is. Beyond λ = 3.51 there is no balance.


# %%
class Slab(ds.AbstractSimulation):
    heating: jax.Array
    slope: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.stack([jnp.zeros_like(self.slope), self.slope])

    def terms(self):
        return diffrax.ODETerm(
            lambda x, y, slab: jnp.stack([y[1], -slab.heating * jnp.exp(y[0])])
        )

    def default_method(self):
        return ds.Method(diffrax.Dopri8(), adjoint=diffrax.RecursiveCheckpointAdjoint())


# %% [markdown]
# Diffrax's checkpointed adjoint has reverse mode only. So has this residual, and
# `mode="reverse"` needs no more: one run backwards for the Jacobian, and one adjoint
# solve for the gradient.


# %%
def arrival(slope, heating):
    return ds.simulate(Slab(heating, slope), 1.0, throw=False).states[0]


def slope_of(heating, guess=0.5):
    adjoint = implicit.ImplicitAdjoint(mode="reverse")
    return implicit.root(arrival, jnp.array(guess), heating, adjoint=adjoint)


def middle(heating):
    slab = Slab(heating, slope_of(heating))
    return ds.simulate(slab, 0.5, throw=False).states[0]


# %% [markdown]
# In closed form the middle is at $2 \ln\cosh(\theta/4)$, where
# $\theta = \sqrt{2\lambda}\,\cosh(\theta/4)$.


# %%
def closed_form(heating):
    root2 = np.sqrt(2 * heating)
    theta = 1.5
    for _ in range(60):
        theta = root2 * np.cosh(theta / 4)
    slope = np.cosh(theta / 4) / root2 / (1 - root2 * np.sinh(theta / 4) / 4)
    return 2 * np.log(np.cosh(theta / 4)), np.tanh(theta / 4) / 2 * slope


value_and_slope = jax.jit(jax.value_and_grad(middle))
for heating in (0.5, 1.0, 2.0):
    found = value_and_slope(jnp.array(heating))
    print(f"heating {heating}: middle at {found[0]:.9f}, {found[1]:+.6f} per unit more")
    np.testing.assert_allclose(found, closed_form(heating), rtol=1e-7)
