"""Functions that JAX does not look into: their derivative is the one they are given.

A `custom_jvp` rule is a suggestion. Inside `lax.scan` partial evaluation writes the
function itself out, and its second derivative goes through the code instead of the
rule: wrong where the code only approximates what the rule differentiates, as the
iterations of a root-finder do (a bisection has derivative zero). A primitive cannot be
written out, so its rule holds in every nesting of every transformation.

The one file that leans on `jax.extend` and `jax.interpreters`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.extend.core
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array


#: `tangent(outputs, inputs, tangents)`: tangents of the outputs, linear in those of the
#: inputs. None stands for zero, of an input as of an output.
Tangent = Callable[
    [Sequence[Array], Sequence[Array], Sequence[Array | None]],
    Sequence[Array | None],
]

_sealed = jax.extend.core.Primitive("sealed")
_sealed.multiple_results = True


def sealed(
    function: Callable[..., Sequence[Array]], tangent: Tangent, *inputs: Array
) -> list[Array]:
    """`function(*inputs)`, with the derivative `tangent` of any order and in any mode.

    `tangent` is differentiated itself for higher orders, and transposed for reverse
    mode, so it has to call `sealed` nowhere: outputs that it is handed know their own
    derivative. Neither function may close over what is differentiated or batched.
    """
    inputs = tuple(jax.numpy.asarray(x) for x in inputs)
    jaxpr = jax.make_jaxpr(lambda *x: list(function(*x)))(*inputs)
    return _sealed.bind(*inputs, jaxpr=jaxpr, tangent=tangent)


def hoisted(
    function: Callable[..., Any], *examples: Any
) -> tuple[Callable[..., Any], list[Array]]:
    """`function` as `new(consts, *arguments)`, and every array that it closes over.

    Integers and keys among them, which `jax.closure_convert` leaves where they are.
    """
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*examples)
    structure = jax.tree.structure(shape)

    def new(consts, *arguments):
        leaves = jax.tree.leaves(arguments)
        return jax.tree.unflatten(
            structure, jax.core.eval_jaxpr(jaxpr.jaxpr, consts, *leaves)
        )

    return new, [jax.numpy.asarray(const) for const in jaxpr.consts]


class Opened(eqx.Module):
    """A function with the arrays that it closes over as leaves."""

    consts: list[Array]
    function: Callable[..., Any] = eqx.field(static=True)

    @classmethod
    def of(cls, function: Callable[..., Any], *examples: Any) -> "Opened":
        new, consts = hoisted(function, *examples)
        return cls(consts, new)

    def __call__(self, *arguments):
        return self.function(self.consts, *arguments)


def _run(*inputs, jaxpr, tangent):
    del tangent
    return jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *inputs)


@_sealed.def_impl
def _impl(*inputs, **params):
    return jax.jit(lambda *x: _run(*x, **params))(*inputs)


@_sealed.def_abstract_eval
def _abstract(*inputs, jaxpr, tangent):
    del inputs, tangent
    return jaxpr.out_avals


def _jvp(inputs, tangents, *, jaxpr, tangent):
    # Bound again, and not run: the outputs carry this rule to the next order.
    outputs = _sealed.bind(*inputs, jaxpr=jaxpr, tangent=tangent)
    given = [None if type(t) is ad.Zero else t for t in tangents]
    found = tangent(outputs, inputs, given)
    return outputs, [
        ad.Zero(jax.typeof(y).to_tangent_aval()) if t is None else t
        for y, t in zip(outputs, found, strict=True)
    ]


def _batched(inputs, axes, *, jaxpr, tangent):
    axes = tuple(axes)

    def run(*x):
        return _run(*x, jaxpr=jaxpr, tangent=tangent)

    wide = jax.make_jaxpr(jax.vmap(run, in_axes=axes, out_axes=0))(*inputs)

    def wide_tangent(outputs, inputs, tangents):
        known: list[bool] = []

        def one(outputs, inputs, tangents):
            found = tangent(outputs, inputs, tangents)
            known[:] = [t is not None for t in found]
            return [t for t in found if t is not None]

        moving = [None if t is None else a for t, a in zip(tangents, axes, strict=True)]
        every = jax.vmap(one, in_axes=(0, list(axes), moving), out_axes=0)
        found = iter(every(list(outputs), list(inputs), list(tangents)))
        return [next(found) if k else None for k in known]

    outputs = _sealed.bind(*inputs, jaxpr=wide, tangent=wide_tangent)
    return outputs, [0] * len(outputs)


ad.primitive_jvps[_sealed] = _jvp
batching.primitive_batchers[_sealed] = _batched
mlir.register_lowering(_sealed, mlir.lower_fun(_run, multiple_results=True))
