# %% [markdown]
# # Your own simulation
# Twenty lines of physics, and fit, Fisher forecast and sweep come with them.

# %%
import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference


jax.config.update("jax_enable_x64", True)


# %% [markdown]
# A damped oscillator, $x = A e^{-\gamma t} \cos(\omega t + \varphi)$. Its parameters
# are arrays; what follows from them is worked out where it is used, so that derivatives
# see it.


# %%
class DampedOscillator(ds.AbstractSimulation):
    amplitude: jax.Array
    damping: jax.Array
    frequency: jax.Array
    phase: jax.Array
    t0: float = 0.0

    def initial_state(self):
        x = self.amplitude * jnp.cos(self.phase)
        v = -self.damping * x - self.amplitude * self.frequency * jnp.sin(self.phase)
        return jnp.stack([x, v])

    def terms(self):
        return diffrax.ODETerm(_rates)

    def default_method(self):
        return ds.Method(diffrax.Dopri8(), step=0.02)


def _rates(t, y, oscillator):
    x, v = y
    damping, frequency = oscillator.damping, oscillator.frequency
    return jnp.stack([v, -2 * damping * v - (damping**2 + frequency**2) * x])


truth = DampedOscillator(*(jnp.array(value) for value in (1.0, 0.1, 2.0, 0.3)))
times, noise = np.linspace(0, 10, 101), inference.Gaussian(0.05)


def position(oscillator):
    return ds.simulate(oscillator, times).states[:, 0]


# %% [markdown]
# Before there are data: what will they tell? The error bars are known in closed form.

# %%
forecast = ds.fisher(position, truth, noise=noise)
known = (0.01802473, 0.00412565, 0.00404554, 0.01730784)
for name, stderr, exact in zip(forecast.names, forecast.stderr, known, strict=True):
    print(f"{name:10s} forecast ± {stderr:.8f}, closed form ± {exact:.8f}")
np.testing.assert_allclose(forecast.stderr, known, rtol=0, atol=6e-9)
np.testing.assert_allclose(forecast.correlation[2, 3], -0.789654, rtol=1e-5)

# %% [markdown]
# With data, from a wrong start:

# %%
data = position(truth) + 0.05 * jax.random.normal(jax.random.key(1), times.shape)
start = DampedOscillator(*(jnp.array(value) for value in (0.7, 0.2, 2.1, 0.0)))
fit = ds.fit(position, start, data, noise=noise)
print(fit)
off = (np.array(fit.values) - (1.0, 0.1, 2.0, 0.3)) / np.array(fit.stderr)
assert np.all(np.abs(off) < 4), off

# %% [markdown]
# And for many frequencies at once:

# %%
frequencies = np.linspace(1.8, 2.2, 41)
sweep = ds.sweep(position, fit.model, {"frequency": frequencies})
chi2 = np.sum(((sweep.outputs - np.array(data)) / 0.05) ** 2, axis=1)
best = frequencies[np.argmin(chi2)]
print(f"of 41 frequencies {best:.2f} describes the data best, chi2 {chi2.min():.0f}")
assert abs(best - 2.0) < 0.02
