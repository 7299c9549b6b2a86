"""Which first results are compared, with whom, and what is asked of them."""

from typing import NamedTuple


class Contest(NamedTuple):
    """A task of ours, the peer's, and how many times as long ours may take."""

    what: str
    ours: str
    theirs: str
    peer: str
    target: float | None


_BY_HAND = "Diffrax by hand"
CONTESTS = (
    Contest("orbits of three bodies", "ours.orbit", "by_hand.orbit", _BY_HAND, 1.3),
    Contest("a user's own ODE", "ours.ode", "by_hand.ode", _BY_HAND, 1.3),
    Contest(
        "orbits and their Jacobian in three masses",
        "ours.orbit_and_jacobian",
        "by_hand.orbit_and_jacobian",
        _BY_HAND,
        None,
    ),
    Contest(
        "Kuramoto–Sivashinsky, 128 points",
        "ours.kuramoto_sivashinsky",
        "by_exponax.kuramoto_sivashinsky",
        "exponax",
        1.3,
    ),
    Contest(
        "Navier–Stokes, 64 × 64",
        "ours.navier_stokes",
        "by_exponax.navier_stokes",
        "exponax",
        1.3,
    ),
    Contest(
        "Burgers, 256 finite volumes",
        "ours.burgers",
        "by_exponax.burgers",
        "exponax",
        1.3,
    ),
    Contest(
        "heat between four walls, 64 × 64",
        "ours.heat",
        "heat_by_hand.heat",
        _BY_HAND,
        1.5,
    ),
    Contest(
        "gradient of heat between four walls, 64 × 64",
        "ours.heat_gradient",
        "heat_by_hand.heat_gradient",
        _BY_HAND,
        2.0,
    ),
    Contest(
        "a fit of six numbers",
        "ours.fit",
        "by_scipy.fit",
        "SciPy's least squares, Diffrax by hand",
        1.5,
    ),
    Contest(
        "orbits with three events",
        "ours.orbit_with_events",
        "ours.orbit",
        "the run without events",
        2.0,
    ),
)

#: Tasks whose compilations are counted, and those that find them in a filled cache.
COUNTED_TASKS = {
    "orbits": "ours.orbit",
    "a user's own ODE": "ours.ode",
    "heat": "ours.heat",
    "Kuramoto–Sivashinsky": "ours.kuramoto_sivashinsky",
}
CACHED_TASKS = {
    name: task for name, task in COUNTED_TASKS.items() if task != "ours.ode"
}
MOST_COMPILATIONS = 15

#: What `import diffsim` imports, and is not ours.
DEPENDENCIES = (
    "jax",
    "equinox",
    "diffrax",
    "optimistix",
    "lineax",
    "optax",
    "jaxtyping",
    "numpy",
)

#: What holds another number in a second call; `benchmarks.fresh.second_values`.
SECOND_VALUES = (
    "a source",
    "a noise",
    "a predict",
    "a condition",
    "an equation's float",
)
