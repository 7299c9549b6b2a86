"""`PreconditionedKrylov`: a Krylov method preconditioned by another solver."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array

from ..._types import PyTree
from ..._validation import or_default
from ...implicit import CG, GMRES, MINRES, Krylov
from ._fast_diagonalization import FastDiagonalization
from ._helmholtz_operator import (
    AbstractEllipticSolver,
    AbstractPreconditioner,
    HelmholtzOperator,
    PreparedOperator,
    typical_size,
)


class PreconditionedKrylov(AbstractEllipticSolver):
    r"""A Krylov method on $M^{-1} A$, for all k, α and boundaries.

    ```python
    square = pde.Domain(pde.Grid((64, 64)), pde.Dirichlet(0.0))
    x, y = square.grid.centers
    k, f = jnp.exp(2 * x), jnp.ones((64, 64))
    solver = pde.PreconditionedKrylov(pde.FastDiagonalization())
    found = pde.poisson_solution(f, square, coefficient=k, solver=solver)
    found.value, found.iterations  # 6 steps of CG
    ```

    **Arguments**

    - `preconditioner`: M⁻¹. None is `FastDiagonalization()`; or `Multigrid()`, which
        takes fewer steps where k varies by factors within a few cells, or α by more
        than k/L² of a domain of length L, and ten times as long to compile.
    - `krylov`: an `implicit.Krylov` for its method, tolerances and `max_steps`. None is
        `CG()`; or `GMRES()`, where ghosts follow from more than the one cell beside
        them, so that A is not symmetric.

    **Limits:** `Robin` with coefficients of opposite signs can make A indefinite:
    `Krylov(GMRES())` then (mathematics).
    """

    preconditioner: AbstractPreconditioner
    krylov: Krylov | None

    def __init__(
        self,
        preconditioner: AbstractEllipticSolver | None = None,
        krylov: Krylov | None = None,
    ):
        self.preconditioner = or_default(
            "preconditioner",
            preconditioner,
            AbstractPreconditioner,
            default=FastDiagonalization(),
        )
        self.krylov = krylov

    def __check_init__(self) -> None:
        if self.krylov is not None and self.krylov.preconditioner is not None:
            raise ValueError("krylov has a preconditioner of its own: leave it out")

    def unsupported_reason(self, system: HelmholtzOperator, *, exact: bool) -> str:
        del exact
        return self.preconditioner.unsupported_reason(system, exact=False)

    def prepare(self, system: HelmholtzOperator) -> PyTree:
        return self.preconditioner.prepare(system)

    def solve(
        self,
        prepared: PreparedOperator,
        operator: Callable[[Array], Array],
        b: Array,
        *,
        guess: Array | None = None,
    ) -> tuple[Array, Array]:
        def approximate(r: Array) -> Array:
            return self.preconditioner.apply_preconditioner(prepared, r)

        approximate = prepared.system.around_constants(approximate)
        unit = typical_size(b)
        krylov = krylov_solver(prepared.system) if self.krylov is None else self.krylov
        krylov = eqx.tree_at(lambda k: k.atol, krylov, krylov.atol / unit)
        left = (b if guess is None else b - operator(guess)) / unit
        b = b / unit
        if isinstance(krylov.method, CG | MINRES):
            x, steps = krylov.solve_to_tolerance(
                operator, left, krylov.tolerance(b), approximate
            )
        else:
            # Preconditioned from the left: rounding in b − A x is rough, and as large
            # as a residual that matters; M⁻¹ tells them apart.
            x, steps = krylov.solve_to_tolerance(
                lambda v: approximate(operator(v)),
                approximate(left),
                krylov.tolerance(approximate(b)),
            )
        return unit * x if guess is None else guess + unit * x, steps


def krylov_solver(system: HelmholtzOperator, rtol: float | None = None) -> Krylov:
    """Return the Krylov solver that suits a system, with its tolerance."""
    return Krylov(CG() if system.symmetric else GMRES(), rtol)
