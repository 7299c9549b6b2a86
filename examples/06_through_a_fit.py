# %% [markdown]
# # Through a fit
# A best fit is a function of its data: move one datum and the parameters move. How far,
# is the derivative of a minimum, taken without refitting.

# %%
import jax
import jax.numpy as jnp
import numpy as np

from diffsim import implicit


jax.config.update("jax_enable_x64", True)

times = jnp.linspace(0.0, 3.0, 12)
noise = 0.05


def decay(parameters):
    amplitude, rate, floor = parameters
    return amplitude * jnp.exp(-rate * times) + floor


truth = jnp.array([2.0, 1.3, 0.4])
data = decay(truth) + noise * jax.random.normal(jax.random.key(0), times.shape)


def fitted(data):
    def residuals(parameters, data):
        return (decay(parameters) - data) / noise

    return implicit.least_squares(residuals, jnp.array([1.0, 1.0, 0.0]), data)


best = fitted(data)
print("best fit", best)

# %% [markdown]
# The derivative by every datum at once, shape (parameter, datum), against fits to data
# of which one is moved either way.

# %%
influence = jax.jit(jax.jacrev(fitted))(data)
step = 1e-4
moved = jax.jit(jax.vmap(fitted))
shifts = step * jnp.eye(times.size)
refitted = ((moved(data + shifts) - moved(data - shifts)) / (2 * step)).T
np.testing.assert_allclose(influence, refitted, rtol=1e-5, atol=1e-8)
for name, row in zip(("amplitude", "rate", "floor"), influence, strict=True):
    t = times[int(jnp.argmax(jnp.abs(row)))]
    print(f"{name:9s} depends most on the datum at t = {t:.2f}")

# %% [markdown]
# Noise in the data becomes noise in the parameters by that matrix: error bars without
# assuming that residuals vanish. Where the model fits, they are those of Fisher.

# %%
spread = noise * jnp.sqrt(jnp.sum(influence**2, axis=1))
jacobian = jax.jacfwd(decay)(best) / noise
fisher = jnp.sqrt(jnp.diag(jnp.linalg.inv(jacobian.T @ jacobian)))
print("error bars", spread, "by Fisher", fisher)
np.testing.assert_allclose(spread, fisher, rtol=0.1)

# %% [markdown]
# With `hessian="gauss_newton"` the second derivatives of the model are left out: an
# approximation, and then the error bars are Fisher's exactly.

# %%


def fitted_roughly(data):
    def residuals(parameters, data):
        return (decay(parameters) - data) / noise

    start = jnp.array([1.0, 1.0, 0.0])
    return implicit.least_squares(residuals, start, data, hessian="gauss_newton")


rough = jax.jacrev(fitted_roughly)(data)
covariance = noise**2 * rough @ rough.T
error = jnp.max(jnp.abs(rough / influence - 1))
print(f"Gauss-Newton is off by up to {error:.1%}")
assert 1e-4 < error < 0.5
assert covariance.shape == (3, 3)
