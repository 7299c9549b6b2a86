"""Conjugate gradients."""

from collections.abc import Callable
from typing import ClassVar

from jaxtyping import Array

from ._krylov_method import (
    AbstractKrylovMethod,
    Inner,
    Vector,
    add_scaled,
    iterate_until,
    vector_norm,
)


class CG(AbstractKrylovMethod):
    r"""Conjugate gradients: symmetric positive definite $A$ and $M$.

    ```python
    def stiffness(u):  # −u'' between walls
        return jnp.convolve(u, jnp.array([-1.0, 2.0, -1.0]), "same")

    solver = implicit.Krylov(implicit.CG())
    implicit.linear_solve(stiffness, jnp.ones(100), linear_solver=solver)
    ```

    The error falls by $(\sqrt\kappa - 1)/(\sqrt\kappa + 1)$ a step.
    """

    references: ClassVar[tuple[str, ...]] = ("10.6028/jres.049.044",)

    def iterated(
        self,
        operator: Callable[[Vector], Vector],
        b: Vector,
        *,
        precondition: Callable[[Vector], Vector],
        inner: Inner,
        tolerance: Array,
        max_steps: int,
    ) -> tuple[Vector, Array, Array]:
        def step(carry):
            x, r, p, rz, _, n = carry
            Ap = operator(p)
            alpha = rz / inner(p, Ap)
            x, r = add_scaled(x, alpha, p), add_scaled(r, -alpha, Ap)
            z = precondition(r)
            old, rz = rz, inner(r, z)
            return x, r, add_scaled(z, rz / old, p), rz, vector_norm(inner, r), n + 1

        z = precondition(b)
        start = (add_scaled(b, -1, b), b, z, inner(b, z), vector_norm(inner, b), 0)
        x, _, _, _, residual, n = iterate_until(step, start, tolerance, max_steps)
        return x, residual, n
