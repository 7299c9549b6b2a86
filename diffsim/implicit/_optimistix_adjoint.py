"""`ImplicitAdjoint`: the rule, for the functions of Optimistix."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx

from ._implicit_differentiation import ImplicitEquation, Rule, implicit_solve


class ImplicitAdjoint(optx.AbstractAdjoint):
    """`optimistix.root_find(..., adjoint=ImplicitAdjoint())`, and minimise, and so on.

    Differentiates as `root` does: in every mode and nesting, Hessians inside `scan`
    included, where `optimistix.ImplicitAdjoint` goes through the iterations.

    **Arguments**

    - `rule`: a `Rule`, of any mode but `"unroll"`, which is
        `optimistix.RecursiveCheckpointAdjoint()`; its `refinements` is not used.

    **Limits:** a value is what Optimistix makes of it; where that failed and
    `throw=False`, its derivative means nothing (convenience; `root` gives NaN).
    """

    rule: Rule = Rule()

    def __check_init__(self):
        if self.rule.mode == "unroll" or self.rule.refinements:
            raise ValueError(
                f"rule must be of a mode other than 'unroll' and refinements=0, got "
                f"{self.rule}; optimistix.RecursiveCheckpointAdjoint() unrolls"
            )

    def apply(self, primal_fn, rewrite_fn, inputs, tags):
        del tags
        guess, given = inputs[2], eqx.tree_at(lambda i: i[2], inputs, None)
        theta, static = eqx.partition(given, eqx.is_array)
        kept = []

        def whole(y, theta) -> Any:
            given = eqx.combine(theta, static)
            return eqx.tree_at(lambda i: i[2], given, y, is_leaf=lambda x: x is None)

        def function(y, theta):
            return rewrite_fn(y, None, whole(y, theta))

        def solve(solver, function, y, theta):
            del solver, function
            value, about = primal_fn((*whole(y, theta), _while))
            about, fixed = eqx.partition(about, eqx.is_array)
            kept.append(fixed)
            return value, about, None

        guess = jax.tree.map(jnp.asarray, guess)
        value, about = implicit_solve(
            ImplicitEquation(function, theta, None, solve), guess, self.rule
        )
        return value, eqx.combine(about, kept[0])


def _while(cond, body, init, *, max_steps):
    """The loop that Optimistix asks an adjoint for."""

    def wanted(carry):
        n, inner = carry
        return cond(inner) if max_steps is None else cond(inner) & (n < max_steps)

    def step(carry):
        n, inner = carry
        return n + 1, body(inner)

    return jax.lax.while_loop(wanted, step, (jnp.asarray(0), init))[1]
