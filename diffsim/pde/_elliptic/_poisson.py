"""`helmholtz` and `poisson`: elliptic problems, checked."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._jit._fresh_jit import fresh_jit
from ..._linalg import max_norm
from ..._results import RESULTS, is_finite, nan_unless, raise_if_failed, should_raise
from ..._types import Numbers
from ..._validation import (
    array_of,
    as_floating,
    instance,
    is_traced,
    not_negative,
    one_of,
    positive,
)
from ...implicit import Solution
from .._domain import Domain
from .._finite_volume import (
    FACE_MEANS,
    diffusion_flux_divergence,
    shapes_on_faces,
    values_on_faces,
)
from ._differentiable_solve import default_solver, solve_elliptic
from ._helmholtz_operator import (
    AbstractEllipticSolver,
    HelmholtzOperator,
    helmholtz_operator,
    operator_diagonal,
)


_RESONANCE = (
    "with a negative one waves of some length resonate, and no solver here is for them"
)


def helmholtz(
    f: Numbers,
    domain: Domain,
    *,
    alpha: Numbers,
    coefficient: Numbers | tuple[Numbers, ...] = 1.0,
    t: Any = 0.0,
    face_mean: str = "harmonic",
    solver: AbstractEllipticSolver | None = None,
    throw: bool | None = None,
) -> Array:
    r"""Solve Helmholtz' equation $\alpha u - \nabla\cdot(k\,\nabla u) = f$, of order 2.

    Exactly, to the tolerance of the solver, that of `pde.diffusion` in every cell.
    Differentiable in f, α, k, the boundary values and the corners of the grid, in
    every mode, by one more solve and not through iterations.

    ```python
    grid = pde.Grid((128, 128))
    walls = pde.Domain(grid, (pde.Periodic(), (pde.Dirichlet(1.0), pde.Neumann())))
    u = pde.helmholtz(jnp.zeros(grid.shape), walls, alpha=10.0)
    ```

    **Arguments**

    - `f`: shape (..., *grid), each grid of it a problem of its own.
    - `domain`: the grid and its boundaries, taken at the time `t`.
    - `alpha`: α, 1 / length² times that of k, 0 or positive: a number or a field, shape
        (*grid).
    - `coefficient`: k, positive, likewise, or a tuple of fields on the faces across
        each axis.
    - `face_mean`: of k in both cells beside a face, as of `pde.diffusion`.
    - `solver`: None is `TridiagonalElimination()` for one axis, `FastDiagonalization()`
        where α and k are numbers, and `PreconditionedKrylov()` for fields.
    - `throw`: whether a failure raises; None does, and is NaN inside `fit` and `sweep`.

    `helmholtz_solution` returns the status, the residual and the iterations as well.

    Where α is 0 and only differences of u are determined, all boundaries being periodic
    or `Neumann`, f and what passes the boundary have to balance; rounding is taken out
    of f, and the u of mean zero is returned.

    **Raises:** `ValueError` for fields of another shape, α and k of the wrong sign, a
    solver that cannot, and concrete data that do not balance; `RuntimeError` for those
    failures of compiled code where they raise.

    **RESULTS:** `incompatible_data`; `no_linear_solution` where a solver did not
    converge; `non_finite` for data that are not finite; `invalid_parameter` for
    corners of the grid in disorder.

    **Good values:** 20 cells a wavelength, for an error of 1 %. In float32 a relative
    error of 1e-4 on 100 cells along an axis: it grows with the square of their number.

    **Limits:** a jump of k within a cell or at an angle to the faces costs one order
    there (convenience). With all boundaries `Neumann` and α = 0, derivatives are those
    of balanced data: a mean in a change of f changes nothing (mathematics).
    """
    return helmholtz_solution(
        f,
        domain,
        alpha=alpha,
        coefficient=coefficient,
        t=t,
        face_mean=face_mean,
        solver=solver,
        throw=throw,
    ).value


def helmholtz_solution(
    f: Numbers,
    domain: Domain,
    *,
    alpha: Numbers,
    coefficient: Numbers | tuple[Numbers, ...] = 1.0,
    t: Any = 0.0,
    face_mean: str = "harmonic",
    solver: AbstractEllipticSolver | None = None,
    throw: bool | None = None,
) -> Solution:
    """`helmholtz` with how it went: an `implicit.Solution`, with its arguments.

    ```python
    rod = pde.Domain(pde.Grid(64), pde.Dirichlet(0.0))
    found = pde.helmholtz_solution(jnp.ones(64), rod, alpha=10.0)
    found.value, found.status, found.residual, found.iterations
    ```

    **Arguments:** `f`, `domain`, `alpha`, `coefficient`, `t`, `face_mean`, `solver` and
    `throw` as for `helmholtz`.

    Status, residual and iterations have the shape (...) of the problems: one that fails
    is NaN and leaves others alone.
    """
    f = as_floating("f", f)
    instance("domain", domain, Domain, "pde.Domain(grid, boundary)")
    domain.check(f)
    if domain.is_nonlinear:
        raise ValueError(
            "domain must have boundary values that do not depend on u, as elliptic "
            "problems are linear, got a function of (t, x, u); pde.steady_state of a "
            "pde.Diffusion(k, f) takes it"
        )
    one_of("face_mean", face_mean, FACE_MEANS)
    sign = "an elliptic problem has one sign of it"
    if isinstance(coefficient, tuple):
        pairs = zip(coefficient, shapes_on_faces(domain.grid.shape), strict=True)
        faces = (array_of("coefficient", face, shape) for face, shape in pairs)
        k: Any = tuple(positive("coefficient", face, sign) for face in faces)
    else:
        k = positive("coefficient", _field("coefficient", coefficient, domain), sign)
    alpha = not_negative("alpha", _field("alpha", alpha, domain), _RESONANCE)
    solution, imbalance = _solve_problem(f, domain, (alpha, k, face_mean), t, solver)
    if not should_raise(throw):
        return solution
    status = _check_balance(solution.status, imbalance)
    value = raise_if_failed(solution.value, status)
    return eqx.tree_at(lambda s: s.value, solution, value)


def poisson(
    f: Numbers,
    domain: Domain,
    *,
    coefficient: Numbers | tuple[Numbers, ...] = 1.0,
    t: Any = 0.0,
    face_mean: str = "harmonic",
    solver: AbstractEllipticSolver | None = None,
    throw: bool | None = None,
) -> Array:
    r"""Solve Poisson's equation $-\nabla\cdot(k\,\nabla u) = f$: `helmholtz`, α = 0.

    ```python
    box = pde.Domain(pde.Grid((64, 64)), pde.Dirichlet(0.0))  # a grounded box
    x, y = box.grid.centers
    charge = jnp.exp(-(((x - 0.3) ** 2 + (y - 0.5) ** 2) / 0.01))
    potential = pde.poisson(charge, box)
    field = -pde.gradient(potential, box)  # (axis, x, y)
    ```

    **Arguments:** `f`, `domain`, `coefficient`, `t`, `face_mean`, `solver` and `throw`
    as for `helmholtz`, with its failures.
    """
    return poisson_solution(
        f,
        domain,
        coefficient=coefficient,
        t=t,
        face_mean=face_mean,
        solver=solver,
        throw=throw,
    ).value


def poisson_solution(
    f: Numbers,
    domain: Domain,
    *,
    coefficient: Numbers | tuple[Numbers, ...] = 1.0,
    t: Any = 0.0,
    face_mean: str = "harmonic",
    solver: AbstractEllipticSolver | None = None,
    throw: bool | None = None,
) -> Solution:
    """`poisson` with how it went: an `implicit.Solution`, as of `helmholtz_solution`.

    ```python
    disk = pde.Domain(pde.Grid((64, 64)), pde.Dirichlet(0.0))
    found = pde.poisson_solution(jnp.ones((64, 64)), disk, solver=pde.Multigrid())
    found.iterations  # V-cycles
    ```

    **Arguments:** `f`, `domain`, `coefficient`, `t`, `face_mean`, `solver` and `throw`
    as for `helmholtz`.
    """
    return helmholtz_solution(
        f,
        domain,
        alpha=0.0,
        coefficient=coefficient,
        t=t,
        face_mean=face_mean,
        solver=solver,
        throw=throw,
    )


@fresh_jit
def _solve_problem(f: Array, domain: Domain, coefficients: Any, t: Any, solver: Any):
    """A `Solution` of every field, and how far its data are from a balance."""
    alpha, k, face_mean = coefficients
    faces = values_on_faces(k, domain, f.dtype, face_mean)
    system = helmholtz_operator(domain, faces, alpha, f.dtype)
    solver = default_solver(system) if solver is None else solver
    instance("solver", solver, AbstractEllipticSolver, "pde.Multigrid()")
    if reason := solver.unsupported_reason(system, exact=True):
        raise ValueError(reason)
    walls = diffusion_flux_divergence(jnp.zeros_like(f), faces, domain, t)
    fields, passing = (x.reshape(-1, *system.shape) for x in (f, walls))
    u, left, iterations = _solve_fields(system, fields + passing, solver)
    status, imbalance = jax.vmap(lambda *problem: _status(system, *problem))(
        fields, passing, u, left
    )
    is_valid = domain.grid.is_valid()
    status = RESULTS.where(is_valid, status, RESULTS.invalid_parameter)
    u = jax.vmap(nan_unless)(u, jnp.asarray(status == RESULTS.successful))
    batch = f.shape[: f.ndim - system.ndim]
    numbers = status, jax.vmap(max_norm)(left), iterations, imbalance
    *numbers, imbalance = jax.tree.map(lambda x: x.reshape(batch), numbers)
    return Solution(u.reshape(f.shape), *numbers), imbalance


def _solve_fields(
    system: HelmholtzOperator, fields: Array, solver: AbstractEllipticSolver
) -> tuple[Array, Array, Array]:
    """The solution for every field, its residual, and the iterations."""

    def solve(b):
        return solve_elliptic(system, b, solver=solver)

    if len(fields) == 1:
        # Under vmap a loop would choose between old and new at every step.
        u, iterations = jax.tree.map(lambda x: x[None], solve(fields[0]))
    else:
        u, iterations = jax.vmap(solve)(fields)
    left = jax.vmap(lambda u, b: system(u) - system.project_mean_free(b))(u, fields)
    return u, left, iterations


def _status(
    system: HelmholtzOperator, f: Array, walls: Array, u: Array, left: Array
) -> tuple[RESULTS, Array]:
    """Return the status of one field, and how far its data are from a balance."""
    b = f + walls
    size = max_norm(b) + max_norm(operator_diagonal(system)) * max_norm(u)
    # The residual is rounding, or the tolerance of a solver.
    rounding = jnp.finfo(b.dtype).eps ** 0.5
    is_solved = (max_norm(left) <= rounding * size) & is_finite(u)
    imbalance = jnp.zeros((), f.dtype)
    if system.sigma is not None:
        # The mean of the data of a singular system, relative to their size.
        mean = jnp.abs(jnp.mean(f + walls))
        total = jnp.mean(jnp.abs(f)) + jnp.mean(jnp.abs(walls))
        relative = mean / jnp.where(total > 0, total, 1)
        imbalance = jnp.where(system.sigma > 0, relative, 0)
    status = RESULTS.where(is_solved, RESULTS.successful, RESULTS.no_linear_solution)
    status = RESULTS.where(imbalance <= rounding, status, RESULTS.incompatible_data)
    return RESULTS.where(is_finite(b), status, RESULTS.non_finite), imbalance


def _field(name: str, value: Numbers, domain: Domain) -> Array:
    field = as_floating(name, value)
    if field.shape not in ((), domain.grid.shape):
        raise ValueError(
            f"{name} must be a number or a field of the grid, shape "
            f"{domain.grid.shape}, got shape {field.shape}"
        )
    return field


def _check_balance(status: RESULTS, imbalance: Array) -> RESULTS:
    """Return the status of the first of several problems that failed."""
    batch, name, first = imbalance.shape, "f", 0
    if batch:
        first = jnp.argmax(jnp.ravel(status != RESULTS.successful))
        both = status, imbalance
        status, imbalance = jax.tree.map(lambda x: x.ravel()[first], both)
    # Under vmap it may be that only one of them is traced.
    if any(map(is_traced, jax.tree.leaves((status, imbalance)))):
        return status
    if status != RESULTS.incompatible_data:
        return status
    if batch:
        name = f"f[{', '.join(map(str, np.unravel_index(int(first), batch)))}]"
    raise ValueError(
        f"{name} and the boundary values must balance where they determine u up to "
        f"a constant: the mean of both together is {float(imbalance):.2g} of their "
        "size, and has to be 0; subtract it from f, or give an alpha above 0"
    )
