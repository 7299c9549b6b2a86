"""`IMEXTerm`: implicit–explicit dynamics with a solver for the stiff part."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._types import PyTree


class AbstractIMEXTerm(diffrax.AbstractTerm[Any, Any]):
    r"""$\dot y = f_E(t, y) + f_I(t, y)$, the second part stiff, with its own solve.

    Solvers with implicit stages take it as it is; to all others it is an ordinary
    vector field. Functions are given `args`, the simulation.
    """

    @property
    @abc.abstractmethod
    def fully_implicit(self) -> bool:
        """Whether everything is implicit: there is no $f_E$."""

    @abc.abstractmethod
    def explicit(self, t: Any, y: PyTree[Array], args: Any) -> PyTree[Array]:
        """$f_E$, zero if `fully_implicit`."""

    @abc.abstractmethod
    def implicit(self, t: Any, y: PyTree[Array], args: Any) -> PyTree[Array]:
        """$f_I$."""

    @abc.abstractmethod
    def solve(
        self,
        t: Any,
        rhs: PyTree[Array],
        length: Array,
        guess: PyTree[Array],
        args: Any,
    ) -> PyTree[Array]:
        r"""The y with $y - \mathrm{length}\, f_I(t, y) = \mathrm{rhs}$.

        Differentiable in all but the guess; NaN where there is none or it was not
        found.
        """

    def vf(self, t: Any, y: PyTree, args: Any) -> PyTree:
        rate = self.implicit(t, y, args)
        if self.fully_implicit:
            return rate
        return jax.tree.map(jnp.add, rate, self.explicit(t, y, args))

    def contr(self, t0: Any, t1: Any, **kwargs: Any) -> PyTree:
        del kwargs
        return t1 - t0

    def prod(self, vf: PyTree, control: Any) -> PyTree:
        return jax.tree.map(lambda rate: control * rate, vf)

    @staticmethod
    def unwrap(
        terms: Any, t0: Array, t1: Array
    ) -> "tuple[AbstractIMEXTerm, Array] | None":
        """Return the IMEX term that a solver was given, and the direction of its time.

        For solvers that use the parts: Diffrax wraps terms to run either way on a clock
        that runs forwards. None where there are none.

        **Arguments**

        - `terms`, `t0`, `t1`: as `init` and `step` of a Diffrax solver are given them.
        """
        return unwrap_terms(terms, AbstractIMEXTerm, t0, t1)


class IMEXTerm(AbstractIMEXTerm):
    r"""$\dot y = f_E + f_I$ with the stiff part $f_I$ and what solves for it.

    ```python
    def decay(t, y, rate):  # rate: args, the simulation where these are its terms
        return -rate * y

    def solve(t, rhs, length, guess, rate):
        return rhs / (1 + length * rate)

    term = simulations.IMEXTerm(decay, solve, explicit=lambda t, y, rate: jnp.sin(t))
    y, solver = jnp.array(1.0), integrators.ARS443()
    diffrax.diffeqsolve(term, solver, 0, 1, 0.1, y, args=1e4).ys
    ```

    `KenCarp3` to `KenCarp5`, `ARS222` and `ARS443` step both parts each in its way;
    `Kvaerno3`, `Kvaerno5` and `CrankNicolson` take one without an explicit part.

    **Arguments**

    - `implicit`: `implicit(t, y, args)`, $f_I$.
    - `solve`: `solve(t, rhs, length, guess, args)`, the y with
        $y - \mathrm{length}\, f_I(t, y) = \mathrm{rhs}$, differentiable: in closed
        form, or by `implicit.linear_solve` or `implicit.root` with `throw=False`. NaN
        says that it failed.
    - `explicit`: `explicit(t, y, args)`, $f_E$; None is zero.
    """

    f_implicit: Callable[..., PyTree[Array]]
    f_solve: Callable[..., PyTree[Array]]
    f_explicit: Callable[..., PyTree[Array]] | None

    def __init__(
        self,
        implicit: Callable[..., PyTree],
        solve: Callable[..., PyTree],
        *,
        explicit: Callable[..., PyTree] | None = None,
    ):
        self.f_implicit = implicit
        self.f_solve = solve
        self.f_explicit = explicit

    @property
    def fully_implicit(self) -> bool:
        return self.f_explicit is None

    def explicit(self, t: Any, y: PyTree, args: Any) -> PyTree:
        if self.f_explicit is None:
            return jax.tree.map(jnp.zeros_like, y)
        return self.f_explicit(t, y, args)

    def implicit(self, t: Any, y: PyTree, args: Any) -> PyTree:
        return self.f_implicit(t, y, args)

    def solve(
        self, t: Any, rhs: PyTree, length: Array, guess: PyTree, args: Any
    ) -> PyTree:
        return self.f_solve(t, rhs, length, guess, args)


Term = TypeVar("Term", bound=diffrax.AbstractTerm)


def unwrap_terms(
    terms: Any, kind: type[Term], t0: Array, t1: Array
) -> tuple[Term, Array] | None:
    """The one term of a kind in `terms`, and the direction of its time.

    Diffrax runs everything on a clock that runs forwards. None where there is none.
    """

    def fits(x):
        return isinstance(x, kind)

    found = [x for x in jax.tree.leaves(terms, is_leaf=fits) if fits(x)]
    if len(found) != 1 or isinstance(terms, diffrax.MultiTerm):
        return None
    if terms is found[0]:
        return found[0], jnp.ones_like(t0)
    span = t1 - t0
    lengths = jnp.asarray(jax.tree.leaves(terms.contr(t0, t1))[0])
    return found[0], jnp.where(span == 0, 1, lengths / jnp.where(span == 0, 1, span))
