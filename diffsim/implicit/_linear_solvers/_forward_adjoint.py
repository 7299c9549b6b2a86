"""One strategy for tangents, another for adjoints."""

from ._linear_solver import AbstractLinearSolver


class ForwardAdjointSolvers(AbstractLinearSolver):
    """`forward` solves $A x = b$, `adjoint` solves $A^T x = b$.

    An adjoint may want another tolerance, method or preconditioner: gradients for an
    optimizer are often good enough with three digits.
    """

    forward: AbstractLinearSolver
    adjoint: AbstractLinearSolver

    def prepare(self, operator, y, hint=None, *, transposed=False):
        ahead, back = (None, None) if hint is None else hint
        return (
            self.forward.prepare(operator, y, ahead, transposed=transposed),
            self.adjoint.prepare(operator, y, back, transposed=transposed),
        )

    def solve(self, state, operator, b):
        return self.forward.solve(state[0], operator, b)

    def solve_transpose(self, state, transposed, b):
        return self.adjoint.solve_transpose(state[1], transposed, b)

    def verify_structure(self, state, operator, y, *, transposed=False):
        return tuple(
            part.verify_structure(mine, operator, y, transposed=transposed)
            for part, mine in zip((self.forward, self.adjoint), state, strict=True)
        )

    def with_closures_as_leaves(self, y):
        return ForwardAdjointSolvers(
            self.forward.with_closures_as_leaves(y),
            self.adjoint.with_closures_as_leaves(y),
        )
