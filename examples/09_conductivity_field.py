# %% [markdown]
# # A field of conductivities
# Thermometers watch heat cross a plate. How well each of 1024 spots conducts, and how
# well that is known, follows from what they read.

# %%
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

import diffsim as ds
from diffsim import inference, integrators, pde, plots


jax.config.update("jax_enable_x64", True)

# %% [markdown]
# There are more unknowns than data, so something has to be known before: that ln D is
# smooth over a length of 0.3, and within ± 0.5. Such a field is white noise smoothed by
# an elliptic problem (doi 10.1111/j.1467-9868.2011.00777.x): the noise is what is
# fitted, and its prior is a number of order one for every cell.

# %%
grid, kappa = pde.Grid((32, 32)), 15.0
insulated = pde.Domain(grid, pde.Neumann())


def smooth(white):
    once = pde.helmholtz(white, insulated, alpha=kappa**2)
    scale = 0.5 * kappa**3 * jnp.sqrt(12 * jnp.pi / grid.volume)
    return scale * pde.helmholtz(once, insulated, alpha=kappa**2)


# %% [markdown]
# The plate is heated at the left and cooled at the right; 40 thermometers are read ten
# times while it warms up, to 0.01 of the difference between both sides.

# %%
random, sigma = np.random.default_rng(4), 0.01
spots = random.integers(32, size=(2, 40))
walls = ((pde.Dirichlet(1.0), pde.Dirichlet(0.0)), pde.Neumann())
method, times = ds.Method(integrators.KenCarp3(), step=0.015), 0.03 * np.arange(1, 11)


def temperatures(white):
    heat = pde.Diffusion(jnp.exp(smooth(white)))
    plate = pde.Evolution(heat, jnp.zeros(grid.shape), grid, walls)
    return ds.simulate(plate, times, method).states[:, 0, *spots]


true = jnp.array(random.normal(size=grid.shape))
readings = temperatures(true) + sigma * random.normal(size=(10, 40))

# %% [markdown]
# The most probable field, in reverse mode: a run and one back for all 1024 derivatives.

# %%
prior, noise = {"[:]": ds.Free(prior=(0.0, 1.0))}, inference.Gaussian(sigma)
options = inference.FitOptions(covariance=False)
how = {"solver": optx.LBFGS(3e-4, 3e-4), "options": options}
fit = ds.fit(temperatures, 0 * true, readings, noise=noise, free=prior, **how)
print(f"chi2 {fit.chi2:.0f} of {readings.size} readings after {fit.steps} steps")

# %% [markdown]
# Its uncertainty without a matrix: products with the Fisher information, a run and one
# back for each, span the few directions of which readings tell. The variance in these
# is $1/(1 + \lambda)$, λ of that information, instead of 1.

# %%
_, forward = jax.linearize(jax.jit(temperatures), fit.model)
backward = jax.linear_transpose(forward, fit.model)
fisher = jax.jit(jax.vmap(lambda v: backward(forward(v) / sigma**2)[0]))

probes = np.array(fisher(random.normal(size=(64, 32, 32)))).reshape(64, -1)
probes = np.linalg.qr(probes.T)[0].T.reshape(64, 32, 32)
told, mix = np.linalg.eigh(np.tensordot(probes, fisher(probes), ((1, 2), (1, 2))))
directions = np.tensordot(mix.T, probes, 1)
before = jnp.sum(smooth(np.eye(1024).reshape(-1, 32, 32)) ** 2, 0)
gain = jnp.tensordot(told / (1 + told), smooth(directions) ** 2, 1)
truth, found, stderr = smooth(true), smooth(fit.model), jnp.sqrt(before - gain)
inside = [float(jnp.mean(abs(found - truth) < k * stderr)) for k in (1, 2)]
missed = (1 + told) * jnp.tensordot(directions, fit.model - true, 2) ** 2
best = missed[told > 1]
print(f"chi2 of the truth {best.sum():.0f} in the {best.size} directions with λ > 1")
print("within 1 and 2 σ of the truth: {:.0%} and {:.0%} of the plate".format(*inside))

# %%
figure = plots.sheet((11.0, 3.6))
shown = {"ln D": truth, "ln D from the readings": found, "its uncertainty": stderr}
with plots.look():
    for i, (title, field) in enumerate(shown.items()):
        look = ("viridis", -1.6, 1.6) if i < 2 else ("magma_r", 0.0, 0.6)
        axes = figure.add_subplot(1, 3, i + 1, aspect="equal", title=title)
        drawn = dict(zip(("cmap", "vmin", "vmax"), look, strict=True))
        figure.colorbar(axes.pcolormesh(*grid.centers, field, **drawn), ax=axes)
        axes.plot(*grid.centers[:, *spots], "w.", markersize=3)
        axes.set(xlabel="heated  →  cooled", xticks=(0, 1), yticks=(0, 1))
    figure.savefig("conductivity_field.png")
assert 0.85 < inside[1] <= 1.0, inside
