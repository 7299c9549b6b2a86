# %% [markdown]
# # Stirred to a standstill
# A lid has set a cavity of fluid turning. How has it to move to bring the fluid to rest
# soon? Gradients through every step of the flow tell.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import diffsim as ds
from diffsim import integrators, pde, plots


jax.config.update("jax_enable_x64", True)

# %% [markdown]
# Any function of t and x may hold at a wall, and what floats in it is a parameter: here
# a speed that goes straight from each of twelve numbers to the next.

# %%
grid, knots = pde.Grid((32, 32)), np.linspace(0.0, 2.0, 12)


class Lid(eqx.Module):
    speeds: jax.Array

    def __call__(self, t, x):
        along = jnp.interp(t, knots, self.speeds)
        return jnp.stack([jnp.full_like(x[0], along), jnp.zeros_like(x[1])])


def cavity(speeds, initial=None):
    walls = pde.NoSlip(), (pde.NoSlip(), pde.NoSlip(Lid(speeds)))
    return pde.IncompressibleFlow(0.01, grid, walls, initial=initial)


# %% [markdown]
# Four units of time to set it turning, at a Reynolds number of 100, and two to stop it.
# Little energy is wanted at the end, for little effort of the lid.

# %%
method = ds.Method(integrators.SSPRK3(), step=0.01)
turning = ds.simulate(cavity(jnp.ones(12)), 4.0, method).final.y


def stopped(speeds, times=2.0):
    return ds.simulate(cavity(speeds, turning), times, method).states


def energy(flow):
    return jnp.mean(jnp.sum(flow**2, axis=-3), axis=(-2, -1)) / 2


@jax.jit
@jax.value_and_grad
def loss(speeds):
    return 1e4 * energy(stopped(speeds)) + jnp.mean(speeds**2) / 40


speeds, search = jnp.zeros(12), optax.adam(optax.cosine_decay_schedule(0.3, 80))
state = search.init(speeds)
for step in range(81):
    value, slope = loss(speeds)
    if step % 20 == 0:
        print(f"step {step:2d}: loss {value:.3f}, slope {jnp.linalg.norm(slope):.3f}")
    update, state = search.update(slope, state)
    speeds = optax.apply_updates(speeds, update)

times = np.linspace(0.0, 2.0, 41)
runs = {"stopped": stopped(jnp.zeros(12), times), "moved": stopped(speeds, times)}
left = {name: energy(flows) / energy(flows[0]) for name, flows in runs.items()}
for name, share in left.items():
    print(f"with the lid {name} {share[-1]:.2%} of the energy is left")

figure = plots.sheet((12.0, 3.5))
with plots.look():
    panels = figure.subplot_mosaic("abcd;abce", width_ratios=(1, 1, 1, 1.1))
    flows = runs["stopped"][0], runs["stopped"][-1], runs["moved"][-1]
    titles = "turning", "2 later, lid stopped", "2 later, lid moved"
    x, y = np.array(grid.centers[0, :, 0]), np.array(grid.centers[1, 0])
    for key, title, flow in zip("abc", titles, flows, strict=True):
        (u, v), look = np.array(flow), {"cmap": "magma", "vmin": 1e-3, "vmax": 1}
        drawn = panels[key].pcolormesh(x, y, np.hypot(u, v).T, norm="log", **look)
        panels[key].streamplot(x, y, u.T, v.T, color="w", linewidth=0.4, arrowsize=0.5)
        panels[key].set(title=title, aspect="equal", xticks=(0, 1), yticks=(0, 1))
    figure.colorbar(drawn, ax=panels["c"], label="speed")
    for (name, share), ink in zip(left.items(), plots.COLORS[1::7], strict=False):
        panels["e"].semilogy(times, share, color=ink, label=f"lid {name}")
    panels["d"].plot(knots, speeds, ".-", color=ink)
    panels["d"].set(title="speed of the lid")
    panels["e"].set(title="energy left", xlabel="time")
    panels["e"].legend()
    figure.savefig("cavity_lid.png")
aside = 1e-4 * np.cos(np.arange(12))
difference = loss(speeds + aside)[0] - loss(speeds - aside)[0]
np.testing.assert_allclose(2 * aside @ loss(speeds)[1], difference, rtol=1e-5)
assert left["moved"][-1] < left["stopped"][-1] / 4
