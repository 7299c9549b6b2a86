# %% [markdown]
# # Chemical equilibrium
# A mixture comes to rest where its reactions balance. That is an equation, not a
# simulation: what the mixture is, and how it moves with temperature and pressure, are
# its root and the derivatives of it.

# %%
import jax
import jax.numpy as jnp
import numpy as np

from diffsim import implicit


jax.config.update("jax_enable_x64", True)


# %% [markdown]
# Nitrogen dioxide in pairs and alone, N₂O₄ ⇌ 2 NO₂, at the pressure P in bar. With
# $\ln K = (T \Delta S - \Delta H) / R T$ the amounts obey
#
# $$2 \ln n_B - \ln n_A + \ln\frac{P}{n_A + n_B} = \ln K, \qquad 2 n_A + n_B = 2.$$
#
# The unknowns are logarithms, so that no step of the search can make them negative.

# %%
R = 8.31446261815324
REACTION = {"enthalpy": jnp.array(57.2e3), "entropy": jnp.array(175.8)}


def balance(logarithms, at):
    a, b = jnp.exp(logarithms)
    log_k = (at["T"] * at["entropy"] - at["enthalpy"]) / (R * at["T"])
    activity = 2 * jnp.log(b) - jnp.log(a) + jnp.log(at["P"] / (a + b))
    return jnp.stack([activity - log_k, 2 * a + b - 2])


def dissociated(at):
    """The share of pairs that have come apart."""
    a, _ = jnp.exp(implicit.root(balance, jnp.zeros(2), at))
    return 1 - a


def at(temperature, pressure=1.0):
    return REACTION | {"T": temperature, "P": jnp.array(pressure)}


# %% [markdown]
# This one reaction has a closed form, $\alpha = \sqrt{K / (K + 4P)}$, to check with.


# %%
def closed_form(at):
    k = jnp.exp((at["T"] * at["entropy"] - at["enthalpy"]) / (R * at["T"]))
    return jnp.sqrt(k / (k + 4 * at["P"]))


temperatures = jnp.linspace(250.0, 400.0, 7)
shares, slopes = jax.vmap(
    lambda t: (dissociated(at(t)), jax.grad(lambda t: dissociated(at(t)))(t))
)(temperatures)
for t, share, slope in zip(temperatures, shares, slopes, strict=True):
    print(f"{t:5.0f} K: {share:6.1%} apart, {1e2 * slope:+.3f} % a kelvin")
np.testing.assert_allclose(shares, jax.vmap(closed_form)(jax.vmap(at)(temperatures)))

# %% [markdown]
# What matters most? Every sensitivity from one gradient, as the change of the share for
# a change of each number by one percent; and the curvature, which says how far that can
# be trusted.

# %%
room = at(jnp.array(298.15))
found, exact = jax.grad(dissociated)(room), jax.grad(closed_form)(room)
for name, value in room.items():
    print(f"1 % more {name:8s} {found[name] * value:+.2f} % points apart")
    np.testing.assert_allclose(found[name], exact[name], rtol=1e-10)

curvature = jax.hessian(dissociated)(room)["T"]["T"]
print(f"d²α/dT² at room temperature {curvature:.3e} per K²")
np.testing.assert_allclose(curvature, jax.hessian(closed_form)(room)["T"]["T"], 1e-9)
