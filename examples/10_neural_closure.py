# %% [markdown]
# # A closure that learns
# Waves that break, on a grid too coarse for them. What the lost scales do to the others
# is learned by a small network inside the equation, from runs that resolve them.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import diffsim as ds
from diffsim import inference, integrators, pde, plots


jax.config.update("jax_enable_x64", True)

# %% [markdown]
# Burgers' equation on 512 cells is the truth, and its means are what 32 could know.

# %%
fine, coarse, burgers = pde.Grid(512), pde.Grid(32), pde.Burgers(0.002)
times = np.linspace(0.05, 1.0, 20)


def wave(key):
    heights, phases = jax.random.normal(key, (2, 4, 1))
    k = jnp.arange(1.0, 5.0)[:, None]
    return 0.5 * sum(heights / k * jnp.sin(2 * jnp.pi * (k * fine.centers + phases)))


def runs(equation, starts, grid, step, times=times):
    method = ds.Method(integrators.SSPRK3(), step=step)
    return jax.vmap(
        lambda u: ds.simulate(pde.Evolution(equation, u, grid), times, method).states
    )(starts)[:, :, 0]


waves = jax.vmap(wave)(jax.random.split(jax.random.key(0), 32))
resolved = runs(burgers, waves, fine, 5e-4)
starts, truth = (u.reshape(*u.shape[:-1], 32, 16).mean(-1) for u in (waves, resolved))

# %% [markdown]
# The closure is a flux through every face, which keeps sums over cells. It sees three
# steps of u around the face and not u: to move along with the waves changes nothing. It
# learns from 16 waves, in the first half of the time, and is judged by 16 others.


# %%
class Closed(pde.AbstractFiniteVolumeEquation):
    burgers: pde.Burgers
    network: eqx.nn.MLP

    def channels(self, ndim):
        return self.burgers.channels(ndim)

    def default_method(self, domain):
        return ds.Method(integrators.SSPRK3(), step=0.0125)

    def rate(self, t, u, domain):
        (beside,) = domain.face_neighbors(u, t, width=2)
        steps = jnp.diff(jnp.concatenate(beside), axis=0)
        flux = 0.1 * jax.vmap(self.network, in_axes=1)(steps)
        return self.burgers.rate(t, u, domain) - jnp.diff(flux) / domain.grid.spacing


# %%
fit = ds.fit(
    lambda closed: runs(closed, starts[:16], coarse, 0.0125, times[:10]),
    Closed(burgers, eqx.nn.MLP(3, "scalar", 8, 2, jnp.tanh, key=jax.random.key(1))),
    truth[:16, :10],
    noise=inference.Gaussian(0.01),
    free={"network": ds.Free(scale=1.0)},
    solver=optax.adam(optax.cosine_decay_schedule(0.03, 200)),
    options=inference.FitOptions(max_steps=200, covariance=False),
)
print(f"{fit.values.size} weights, loss {fit.history['loss'][0]:.0f} → {fit.loss:.0f}")
tried = {"without closure": burgers, "with closure": fit.model}
errors = [runs(u, starts[16:], coarse, 0.0125) - truth[16:] for u in tried.values()]
rms = [np.sqrt(np.mean(error**2, axis=(0, 2))) for error in errors]
figure = plots.sheet((12.0, 3.3))
with plots.look():
    first, *maps, last = figure.subplots(1, 4)
    first.pcolormesh(fine.centers[0], times, resolved[21], cmap="PuOr")
    first.set(title="u on 512 cells", xlabel="x", ylabel="time")
    for i, (axes, name) in enumerate(zip(maps, tried, strict=True)):
        print(
            f"{name}: rms error {rms[i][9]:.4f} at t = 0.5, {rms[i][-1]:.4f} at t = 1"
        )
        look = {"cmap": "PuOr", "vmin": -0.06, "vmax": 0.06}
        drawn = axes.pcolormesh(coarse.centers[0], times, errors[i][5], **look)
        axes.set(title=f"error {name}", xlabel="x")
        last.plot(times, rms[i], color=plots.COLORS[1 + 7 * i], label=name)
    figure.colorbar(drawn, ax=maps, ticks=(-0.06, 0, 0.06))
    last.set(title="rms error, waves never seen", xlabel="time", ylim=(0, 0.015))
    last.axvspan(0, 0.5, color="#777777", alpha=0.1, label="times learned from")
    last.legend(loc="lower right")
    figure.savefig("neural_closure.png")
assert np.mean(rms[1]) < 0.6 * np.mean(rms[0])
