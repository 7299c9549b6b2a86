"""Three planets from 61 transit times: our fit, and SciPy's by finite differences.

SciPy's is timed twice: of transit times that REBOUND finds, and of our own, compiled.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

import diffsim as ds
from diffsim import inference, nbody

from .._harness import Case, Effort, Row
from .._peers import rebound_of
from ._rebound_transits import rebound_transits


#: Transits of each planet, days that hold them all, and ten seconds in days.
COUNTS, UNTIL, SIGMA = {"b": 36, "c": 17, "d": 8}, 420.0, 10 / 86400

TRUTH = {
    "masses": [2e-5, 4e-5, 3e-5],
    "axes": [0.1, 0.16, 0.24],
    "h": [0.01, -0.02, 0.01],
    "k": [0.02, 0.01, 0.0],
    "longitudes": [1.0, 2.5, 4.0],
}


def planets(model: dict[str, Any]) -> nbody.NBody:
    """The system of fifteen numbers."""
    orbits = nbody.NonsingularElements(
        semi_major_axis=model["axes"],
        h=model["h"],
        k=model["k"],
        mean_longitude=model["longitudes"],
    )
    G = nbody.G["au, Msun, day"]
    masses = jnp.concatenate([jnp.ones(1), model["masses"]])
    bodies = nbody.Bodies.from_elements(masses, orbits, G=G, names=["star", *COUNTS])
    return nbody.NBody(bodies, nbody.Gravity(G))


def measure(effort: Effort) -> list[Row]:
    """The first of two fits compiles; SciPy's takes the same predictions, compiled.

    From masses 30 % off. How long a first `simulate` of the system takes is beside it.
    """
    counts = {name: effort.size(n, 3) for name, n in COUNTS.items()}
    until = float(effort.size(int(UNTIL), 90))
    epochs = {name: list(range(n)) for name, n in counts.items()}

    def predict(model):
        found = nbody.transit_times(
            planets(model), epochs, until=until, observer=(1, 0, 0)
        )
        return found.times

    truth = {name: jnp.array(values) for name, values in TRUTH.items()}
    first = _seconds(lambda: ds.simulate(planets(truth), until).states)
    random = np.random.default_rng(0)
    data = {
        name: np.asarray(t) + SIGMA * random.normal(size=t.shape)
        for name, t in jax.jit(predict)(truth).items()
    }
    start = {**truth, "masses": 0.7 * truth["masses"]}
    noise, fits = inference.Gaussian(SIGMA), []

    def fit():
        fits.append(ds.fit(predict, start, data, noise=noise))
        return fits[-1].stderr

    cold, warm = _seconds(fit), _seconds(fit)
    found = fits[-1]
    size = sum(counts.values())
    what = f"fit of {found.values.size} numbers to {size} transit times"
    about = {"steps": int(found.steps), "chi2": float(found.chi2)}
    peers = {
        "our transit times": (_compiled(predict, data), None),
        "REBOUND's transit times": (_by_rebound(data), 1 / 30),
    }
    rows = []
    for of_what, (residuals, target) in peers.items():
        seconds, details = _scipy(residuals, start)
        row = Row(
            what,
            warm / seconds,
            peer=f"SciPy's least_squares, finite differences of {of_what}",
            target=target,
            seconds=warm,
            peer_seconds=seconds,
            details={**about, **details},
        )
        rows.append(row)
    return [
        *rows,
        Row(
            f"first {what}",
            cold / first,
            peer="the first simulate",
            target=8.0,
            seconds=cold,
            peer_seconds=first,
        ),
    ]


CASE = Case("transit_fit", __doc__ or "", measure)


def _seconds(run: Any) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - begin


def _compiled(predict: Any, data: dict[str, Any]) -> Any:
    """Residuals of a model, with nothing left to compile but their first call."""

    @jax.jit
    def residuals(model):
        found = predict(model)
        return jnp.concatenate([(found[name] - data[name]) / SIGMA for name in data])

    return residuals


def _by_rebound(data: dict[str, Any]) -> Any:
    @jax.jit
    def start(model):
        system = planets(model)
        gm = system.gravity.G * system.bodies.masses
        return gm, system.bodies.positions, system.bodies.velocities

    counts = [len(times) for times in data.values()]

    def residuals(model):
        simulation = rebound_of(*start(model))
        found = rebound_transits(simulation, counts)
        pairs = zip(found, data.values(), strict=True)
        return np.concatenate([(times - known) / SIGMA for times, known in pairs])

    return residuals


def _scipy(residuals: Any, start: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """How long it takes with nothing left to compile, and how that went."""
    vector, model = ravel_pytree(start)
    calls = [0]

    def counted(vector):
        calls[0] += 1
        return np.asarray(residuals(model(vector)))

    counted(np.asarray(vector))
    calls[0] = 0
    begin = time.perf_counter()
    found = scipy.optimize.least_squares(counted, np.asarray(vector), x_scale="jac")
    seconds = time.perf_counter() - begin
    return seconds, {"peer_calls": calls[0], "peer_chi2": 2 * float(found.cost)}
