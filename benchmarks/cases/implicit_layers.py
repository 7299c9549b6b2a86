"""Roots and their derivatives against Optimistix's and JAXopt's implicit layers."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.sparse.linalg as sparse
import lineax as lx
import numpy as np
import optimistix as optx

from diffsim.implicit import (
    GMRES,
    BiCGStab,
    Dense,
    ImplicitAdjoint,
    Krylov,
    LaggedLU,
    Newton,
    NewtonKrylov,
    root,
)

from .._harness import Case, Effort, Row, compiled, contest, deviation, ratio
from .._peers import peer


#: Of the last Newton step, for all three.
_TOLERANCE = 1e-10
_PARAMETERS = 20

Solve = Callable[[jax.Array], jax.Array]


class Problem(NamedTuple):
    """f(y, θ) = 0, where the search starts, and a name."""

    residual: Callable[[jax.Array, jax.Array], jax.Array]
    size: int
    name: str
    dense: bool


def measure(effort: Effort) -> list[Row]:
    """Value and gradient, and a Jacobian, of dense systems and of a matrix-free one."""
    rows = []
    for full, tiny in ((2, 2), (100, 8), (1000, 16)):
        problem = _coupled(effort.size(full, tiny))
        rows += _compared(effort, problem, _dense_solves(problem))
    for krylov in _KRYLOV:
        problem = _diffusion(effort.size(10_000, 32), krylov)
        rows += _compared(effort, problem, _krylov_solves(problem, *_KRYLOV[krylov]))
    return rows


CASE = Case("implicit_layers", __doc__ or "", measure)


def _coupled(size: int) -> Problem:
    """A y + θ₀ y³ = C θ: every unknown in every equation."""
    random = np.random.default_rng(size)
    matrix = 4 * np.eye(size) + random.normal(size=(size, size)) / np.sqrt(size)
    columns = random.normal(size=(size, _PARAMETERS))

    def residual(y, theta):
        return matrix @ y + theta[0] * y**3 - columns @ theta

    return Problem(residual, size, f"{size} unknowns, dense", True)


def _diffusion(size: int, krylov: str) -> Problem:
    """u − τ (k(u) u')' = C θ with k = 1 + u²/2: a step in time, five points long."""
    x = np.linspace(0, 1, size)
    columns = np.cos(np.outer(x, np.pi * np.arange(_PARAMETERS)))

    def residual(u, theta):
        around = jnp.pad(u, 1, mode="edge")
        k = 1 + (around[1:] + around[:-1]) ** 2 / 8
        flux = k * jnp.diff(around)
        return u - 0.05 * jnp.diff(flux) - columns @ theta

    return Problem(residual, size, f"{size} unknowns, {krylov}", False)


def _dense_solves(problem: Problem) -> dict[str, Solve]:
    residual, start = problem.residual, jnp.zeros(problem.size)
    adjoint = ImplicitAdjoint(Dense() if problem.size < 10 else LaggedLU())
    newton = Newton(_TOLERANCE, _TOLERANCE)
    theirs = optx.Newton(_TOLERANCE, _TOLERANCE)
    solve_lu = peer("jaxopt").linear_solve.solve_lu

    def by_optimistix(theta):
        return optx.root_find(residual, theirs, start, theta, throw=False).value

    def step(y, theta):
        return jnp.linalg.solve(jax.jacfwd(residual)(y, theta), residual(y, theta))

    return {
        "ours": lambda theta: root(
            residual, start, theta, solver=newton, adjoint=adjoint, throw=False
        ),
        "Optimistix": by_optimistix,
        "JAXopt": _by_jaxopt(residual, start, step, solve_lu),
    }


#: Our method and JAX's. Optimistix steps by GMRES beside both: Lineax's BiCGStab
#: breaks down on these systems.
_KRYLOV = {
    "GMRES": (GMRES(), partial(sparse.gmres, restart=30)),
    "BiCGStab": (BiCGStab(), sparse.bicgstab),
}


def _krylov_solves(problem: Problem, ours: Any, of_jax: Any) -> dict[str, Solve]:
    residual, start = problem.residual, jnp.zeros(problem.size)
    inner = 1e-11
    linear_solver = Krylov(ours, rtol=inner)
    solver = NewtonKrylov(_TOLERANCE, _TOLERANCE, linear_solver=linear_solver)
    gmres = lx.GMRES(rtol=inner, atol=inner, restart=30)
    theirs = optx.Newton(_TOLERANCE, _TOLERANCE, linear_solver=gmres)
    adjoint = optx.ImplicitAdjoint(linear_solver=gmres)

    def by_optimistix(theta):
        return optx.root_find(
            residual, theirs, start, theta, throw=False, adjoint=adjoint
        ).value

    def solved(product, b, **_):
        return of_jax(product, b, tol=inner, atol=0.0)[0]

    def step(y, theta):
        value, product = jax.linearize(lambda y: residual(y, theta), y)
        return solved(product, value)

    return {
        "ours": lambda theta: root(
            residual,
            start,
            theta,
            solver=solver,
            adjoint=ImplicitAdjoint(linear_solver),
            throw=False,
        ),
        "Optimistix": by_optimistix,
        "JAXopt": _by_jaxopt(residual, start, step, solved),
    }


def _by_jaxopt(residual, start, step, solved) -> Solve:
    """JAXopt has no Newton: its rule around a plain loop of it."""

    rule = peer("jaxopt").implicit_diff.custom_root(residual, solve=solved)

    @rule
    def find(guess, theta):
        def wanted(carry):
            return (carry[1] > 1) & (carry[2] < 256)

        def moved(carry):
            y, _, n = carry
            move = step(y, theta)
            y = y - move
            size = jnp.max(jnp.abs(move) / (_TOLERANCE * (1 + jnp.abs(y))))
            return y, size, n + 1

        start = (guess, jnp.asarray(jnp.inf), jnp.asarray(0))
        return jax.lax.while_loop(wanted, moved, start)[0]

    return lambda theta: find(start, theta)


def _compared(effort: Effort, problem: Problem, solves: dict[str, Solve]) -> list[Row]:
    theta = jnp.linspace(0.5, 1.5, _PARAMETERS)

    def gradient(solve):
        return jax.value_and_grad(lambda theta: jnp.sum(jnp.sin(solve(theta))))

    kinds: dict[str, tuple[Any, float]] = {
        "value and gradient": (gradient, 1.0),
        f"Jacobian in {_PARAMETERS} numbers": (jax.jacfwd, 0.8),
    }
    rows = []
    for kind, (derivative, target) in kinds.items():
        programs = {}
        for name, solve in solves.items():
            # JAXopt's rule is a `custom_vjp`: it has no forward mode.
            if name == "JAXopt" and derivative is jax.jacfwd:
                continue
            programs[name] = compiled(derivative(solve), theta)
        rows.append(_row(effort, f"{kind}, {problem.name}", programs, target))
    return rows


def _row(effort: Effort, what: str, programs: dict[str, Any], target: float) -> Row:
    times = contest(effort, **{name: p.turn for name, p in programs.items()})
    peers = {name: t for name, t in times.items() if name != "ours"}
    best = min(peers, key=lambda name: peers[name].best)
    others = "" if len(peers) == 1 else f", the faster of {' and '.join(peers)}"
    ours, theirs = (programs[name].value for name in ("ours", best))
    return ratio(
        what,
        times["ours"],
        times[best],
        program=programs["ours"],
        peer=best + others,
        target=target,
        error=deviation(ours, theirs),
        reference=best,
        details={name: t.best for name, t in times.items()},
    )
