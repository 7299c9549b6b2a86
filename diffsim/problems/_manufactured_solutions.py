"""Manufactured solutions of equations, with their sources; tests import them, too."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import integrators, pde
from ..simulations import Method, simulate
from ..verify import Manufactured


#: The line that solutions are periodic on, and that walls are mirrors of if they are
#: even or odd; their time, and steps whose error is far below that of space.
_LENGTH, _END = np.pi, 0.5
_METHOD = Method(integrators.SSPRK3(), step=2.5e-4)
_GAMMA, _GRAVITY = 1.4, 1.0


#: Of the time and a place.
Solution = Callable[[Any, Array], Array]


class ManufacturedProblem(NamedTuple):
    """An equation on a line, as this library and as mathematics has it.

    ```python
    for equation in problems.MANUFACTURED_PROBLEMS:  # a problems.ManufacturedProblem
        print(equation.name, len(equation.channels), equation.boundaries)
    ```

    `channels` says of each what it is about, how much it varies, and whether it is odd
    in a mirror. Boundaries are for these; `state` makes the fields that the equation
    evolves of them, which `rate` is for.
    """

    name: str
    law: Callable[[Manufactured, pde.AbstractReconstruction], pde.AbstractEquation]
    rate: Callable[[Callable[[Array], Array], Any, Array], Array]
    channels: tuple[tuple[float, float, bool], ...] = ((0.5, 0.12, False),)
    state: Callable[[Solution], Solution] = lambda w: w
    boundaries: tuple[str, ...] = ("Periodic", "Dirichlet", "Neumann", "Robin")
    schemes: bool = False


def _slope(u: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """∂u/∂x of a function of a place on a line, channel by channel."""
    return lambda x: jax.jvp(u, (x,), (jnp.ones_like(x),))[1]


def _diffusion(u, x, D):
    """(D(u) u')'."""
    return _slope(lambda x: D(u(x)) * _slope(u)(x))(x)


def _melting(u):
    return 0.1 + 0.05 * u


def _wind(t, x):
    return 0.8 * (1 + 0.3 * jnp.sin(2 * x + t))


def _carried(u, t, x):
    flow = _slope(lambda x: _wind(t, x) * u(x))(x)
    return _diffusion(u, x, lambda _: 0.05) - flow + u(x) * (1 - u(x))


def _gas(u, t, x):
    def flux(x):
        mass, momentum, energy = u(x)
        v = momentum / mass
        p = (_GAMMA - 1) * (energy - momentum * v / 2)
        return jnp.stack([momentum, momentum * v + p, (energy + p) * v])

    return -_slope(flux)(x)


def _gas_state(w: Solution) -> Solution:
    def state(t, x):
        density, v, p = w(t, x)
        return jnp.stack([density, density * v, p / (_GAMMA - 1) + density * v**2 / 2])

    return state


def _bottom(x):
    return 0.2 * jnp.cos(4 * x)


def _water(u, t, x):
    def flux(x):
        h, q = u(x)
        return jnp.stack([q, q**2 / h + _GRAVITY * h**2 / 2])

    force = -_GRAVITY * u(x)[0] * _slope(lambda x: _bottom(x[0]))(x)
    return jnp.stack([0 * force, force]) - _slope(flux)(x)


def _water_state(w: Solution) -> Solution:
    def state(t, x):
        h, v = w(t, x)
        return jnp.stack([h, h * v])

    return state


def _wave(u, t, x):
    squared = lambda x: 1 + jnp.sin(2 * x[0]) / 4  # noqa: E731
    pull = _slope(lambda x: squared(x) * _slope(u)(x)[0])(x)
    return jnp.stack([u(x)[1], pull])


def _with_rate(u: Solution) -> Solution:
    """And ∂u/∂t, the second channel of waves."""

    def state(t, x):
        time = jnp.asarray(t, x.dtype)
        both = jax.jvp(lambda t: u(t, x), (time,), (jnp.ones_like(time),))
        return jnp.concatenate(both)

    return state


def _spots(w, t, x):
    u, v = w(x)
    made = u * v**2
    react = jnp.stack([0.3 * (1 - u) - made, made - (0.3 + 0.2) * v])
    return jnp.array([0.1, 0.05]) * _slope(_slope(w))(x) + react


_HYPERBOLIC = ("Periodic", "Dirichlet", "Inflow", "ReflectingWall")

MANUFACTURED_PROBLEMS = (
    ManufacturedProblem(
        "Diffusion",
        lambda case, scheme: pde.Diffusion(lambda t, x, u: _melting(u), case.source),
        lambda u, t, x: _diffusion(u, x, _melting),
        boundaries=(
            "Periodic",
            "Dirichlet",
            "Neumann",
            "Robin",
            "Outflow",
            "ReflectingWall",
        ),
    ),
    ManufacturedProblem(
        "FisherKPP",
        lambda case, scheme: pde.FisherKPP(0.1, 0.9, 2.0, source=case.source),
        lambda u, t, x: _diffusion(u, x, lambda _: 0.1) + 0.9 * u(x) * (1 - u(x) / 2),
    ),
    ManufacturedProblem(
        "AllenCahn",
        lambda case, scheme: pde.AllenCahn(0.1, 1.3, source=case.source),
        lambda u, t, x: _diffusion(u, x, lambda _: 0.1) + 1.3 * (u(x) - u(x) ** 3),
    ),
    ManufacturedProblem(
        "GrayScott",
        lambda case, scheme: pde.GrayScott(0.3, 0.2, (0.1, 0.05), source=case.source),
        _spots,
        channels=((0.5, 0.12, False), (0.4, 0.1, False)),
    ),
    ManufacturedProblem(
        "Wave",
        lambda case, scheme: pde.Wave(
            lambda x: jnp.sqrt(1 + jnp.sin(2 * x[0]) / 4),
            source=lambda t, x, u: case.source(t, x)[1],
        ),
        _wave,
        state=_with_rate,
    ),
    ManufacturedProblem(
        "AdvectionDiffusion",
        lambda case, scheme: pde.AdvectionDiffusion(
            0.05,
            _wind,
            source=lambda t, x, u: u * (1 - u) + case.source(t, x)[0],
            scheme=scheme,
        ),
        _carried,
        boundaries=("Periodic", "Dirichlet", "Neumann", "Robin", "Inflow", "Outflow"),
        schemes=True,
    ),
    ManufacturedProblem(
        "Burgers",
        lambda case, scheme: pde.Burgers(0.05, source=case.source, scheme=scheme),
        lambda u, t, x: _slope(lambda x: 0.05 * _slope(u)(x) - u(x) ** 2 / 2)(x),
        boundaries=("Periodic", "Dirichlet", "Neumann", "Robin", "Inflow"),
        schemes=True,
    ),
    ManufacturedProblem(
        "Euler",
        lambda case, scheme: pde.Euler(_GAMMA, source=case.source, scheme=scheme),
        _gas,
        ((1.0, 0.2, False), (0.3, 0.2, True), (1.0, 0.2, False)),
        _gas_state,
        _HYPERBOLIC,
        schemes=True,
    ),
    ManufacturedProblem(
        "ShallowWater",
        lambda case, scheme: pde.ShallowWater(
            _GRAVITY, lambda t, x: _bottom(x[0]), source=case.source, scheme=scheme
        ),
        _water,
        ((1.0, 0.2, False), (0.3, 0.2, True)),
        _water_state,
        _HYPERBOLIC,
        schemes=True,
    ),
)


def manufactured_error(
    equation: ManufacturedProblem,
    kind: str,
    scheme: pde.AbstractReconstruction,
    p: Array,
    n: int,
) -> Array:
    """Error of the fields at the end of a run that a manufactured source drives.

    ```python
    heat, p = problems.MANUFACTURED_PROBLEMS[0], jnp.array(1.0)

    def error(n):
        found = problems.manufactured_error(heat, "Neumann", pde.WENO5(), p, n)
        return jnp.sqrt(jnp.mean(found**2))

    jnp.log2(error(16) / error(32))  # the order, 2
    ```

    **Arguments**

    - `equation`: a row of `MANUFACTURED_PROBLEMS`.
    - `kind`: of both boundaries, one of `equation.boundaries`.
    - `scheme`: the reconstruction of hyperbolic equations.
    - `p`: a parameter of the solution, which derivatives are taken by.
    - `n`: number of cells.
    """
    mirrored = kind in ("Outflow", "ReflectingWall")

    def w(t, x):
        return _solution(equation, mirrored, p, t, x[0])

    case = Manufactured(equation.state(w), equation.rate)
    ends = _ends(kind, Manufactured(w, equation.rate), carried=equation.schemes)
    grid = pde.Grid(n, 0.0, _LENGTH)
    start = case.values(0.0, grid.centers)
    run = pde.Evolution(equation.law(case, scheme), start, grid, (ends,))
    found = simulate(run, _END, _METHOD).states - case.values(_END, grid.centers)
    # Of waves the field and not its rate, in which the ripples of fixed ends are.
    return found[: len(equation.channels)]


def _solution(
    equation: ManufacturedProblem, mirrored: bool, p: Array, t: Any, x: Array
):
    """Two waves a channel, standing ones where mirrors are their walls."""
    found = []
    for c, (about, size, odd) in enumerate(equation.channels):
        if not mirrored:
            wave = jnp.sin(2 * x + t + c) + jnp.cos(4 * x - t + 2 * c) / 3
        elif odd:
            about, wave = 0, jnp.sin(2 * x) * jnp.cos(t + c) + jnp.sin(4 * x) / 3
        else:
            wave = jnp.cos(2 * x) * jnp.cos(t + c) + jnp.cos(4 * x) / 3
        found.append(about + p * size * wave)
    return jnp.stack(found)


def _ends(kind: str, case: Manufactured, *, carried: bool):
    """Of a line; what is carried has its values given where it comes in."""
    if kind == "Periodic":
        return pde.Periodic()

    def outwards(t, x, sign):
        return sign * case.slope(t, x)

    def mixed(t, x, sign):
        return case.values(t, x) + 0.3 * sign * case.slope(t, x)

    def end(kind, sign):
        if kind == "Dirichlet":
            return pde.Dirichlet(case.values)
        if kind == "Neumann":
            return pde.Neumann(lambda t, x: outwards(t, x, sign))
        if kind == "Robin":
            return pde.Robin(1.0, 0.3, lambda t, x: mixed(t, x, sign))
        if kind == "Inflow":
            return pde.Inflow(case.values)
        return {"Outflow": pde.Outflow, "ReflectingWall": pde.ReflectingWall}[kind]()

    first = "Dirichlet" if carried and kind in ("Neumann", "Robin", "Outflow") else kind
    return end(first, -1), end("Dirichlet" if kind == "Inflow" else kind, 1)
