"""One strategy for tangents, another for adjoints."""

from ._linear_solver import AbstractLinearSolver


class ForwardAdjointSolvers(AbstractLinearSolver):
    """`forward` solves $A x = b$, `adjoint` solves $A^T x = b$.

    An adjoint may want another tolerance, method or preconditioner: gradients for an
    optimizer are often good enough with three digits.
    """

    forward: AbstractLinearSolver
    adjoint: AbstractLinearSolver

    def prepared(self, operator, y, hint=None, *, transposed=False):
        ahead, back = (None, None) if hint is None else hint
        return (
            self.forward.prepared(operator, y, ahead, transposed=transposed),
            self.adjoint.prepared(operator, y, back, transposed=transposed),
        )

    def solved(self, state, operator, b):
        return self.forward.solved(state[0], operator, b)

    def solved_transposed(self, state, transposed, b):
        return self.adjoint.solved_transposed(state[1], transposed, b)

    def checked(self, state, operator, y, *, transposed=False):
        return tuple(
            part.checked(mine, operator, y, transposed=transposed)
            for part, mine in zip((self.forward, self.adjoint), state, strict=True)
        )

    def opened(self, y):
        return ForwardAdjointSolvers(self.forward.opened(y), self.adjoint.opened(y))
