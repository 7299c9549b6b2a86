# %% [markdown]
# # A wound heals
# A scratch through a layer of cells closes again: cells move, and cells divide. How
# fast they do either follows from their densities under the microscope.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import diffsim as ds
from diffsim import inference, pde, plots


jax.config.update("jax_enable_x64", True)

# %% [markdown]
# The equation of Fisher and KPP, $\partial_t u = D\,\partial_x^2 u + r u (1 - u/K)$,
# across a scratch 1 mm wide. Lengths in mm, times in hours, cells per mm²; the numbers
# are like those of prostate cancer cells (doi 10.1016/j.jtbi.2015.10.040).

# %%
grid = pde.Grid(80, upper=2.0)
x = grid.centers[0]
layer = jax.nn.sigmoid((0.5 - x) / 0.02) + jax.nn.sigmoid((x - 1.5) / 0.02)
truths = {"D [mm²/h]": 1.0e-3, "r [1/h]": 0.05, "K [1/mm²]": 1700.0}


def dish(diffusivity, growth, capacity):
    cells = pde.FisherKPP(diffusivity, growth, capacity)
    return pde.Evolution(cells, 700 * layer, grid, pde.Neumann())


hours = np.array([12.0, 24.0, 36.0, 48.0])


def densities(dish):
    return ds.simulate(dish, hours).states[:, 0]


# %% [markdown]
# Cells are counted at four times, in strips as wide as a cell of the grid. The fit
# starts with numbers that are wrong by factors of two to three.

# %%
sigma = 100.0
noise = sigma * np.random.default_rng(0).normal(size=(hours.size, x.size))
counted = np.array(densities(dish(*truths.values()))) + noise
free = {"equation": ds.Free(transform="log")}
gaussian = inference.Gaussian(sigma)
fit = ds.fit(densities, dish(3e-3, 0.02, 3000.0), counted, noise=gaussian, free=free)
print(f"chi2 {fit.chi2:.0f} with {fit.dof} degrees of freedom after {fit.steps} steps")
pulls = (np.array(fit.values) - list(truths.values())) / np.array(fit.stderr)
for row in zip(truths, fit.values, fit.stderr, truths.values(), pulls, strict=True):
    print("{:10s} {:9.4g} ± {:7.2g}, truth {:6g}, pull {:+.1f} σ".format(*row))

# %% [markdown]
# In an empty dish these cells would spread at $2\sqrt{rD}$ in the end, and at a time t
# slower by a share of $3/(4rt)$ (Bramson 1978). Its error follows from its gradient.


# %%
def speed(values):
    return 2e3 * jnp.sqrt(values[0] * values[1])


ahead, slope = jax.value_and_grad(speed)(fit.values)
error = jnp.sqrt(jnp.vdot(slope, jnp.dot(fit.covariance, slope)))

wide = pde.Grid(320, upper=8.0)
start = jnp.where(wide.centers[0] < 0.5, fit.values[2], 0.0)
empty = pde.Evolution(fit.model.equation, start, wide, pde.Neumann())
late = np.array([350.0, 450.0])
cells = ds.simulate(empty, late).states[:, 0].sum(axis=1) * wide.volume
found = 1e3 * (cells[1] - cells[0]) / fit.values[2] / np.ptp(late)
bramson = ahead * (1 - 0.75 / (fit.values[1] * late.mean()))
print(f"speed of the front 2 √(rD) = {ahead:.2f} ± {error:.2f} µm/h")
print(f"at {late.mean():.0f} h {found:.2f}, by Bramson {bramson:.2f} µm/h")

# %%
figure = plots.sheet((11.0, 4.6))
left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
fitted = densities(fit.model)
with plots.look():
    axes = left.subplots()
    axes.plot(x, 700 * layer, color="#777777", linestyle=":", label="scratched, 0 h")
    for i, hour in enumerate(hours):
        ink = plots.COLORS[(7, 8, 6, 1)[i]]
        axes.plot(x, counted[i], ".", color=ink, alpha=0.4, markersize=4)
        axes.plot(x, fitted[i], color=ink, linewidth=1.8, label=f"{hour:.0f} h")
    axes.legend(loc="upper center", ncols=5, bbox_to_anchor=(0.5, 1.1))
    axes.set(xlabel="across the scratch [mm]", ylabel="cells per mm²", xlim=(0, 2))
    plots.corner(fit, truths=list(truths.values()), labels=list(truths), ax=right)
    figure.savefig("fisher_kpp_fit.png")
assert np.all(np.abs(pulls) < 4), pulls
np.testing.assert_allclose(found, bramson, rtol=0.01)
