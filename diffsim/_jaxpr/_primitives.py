"""Functions that JAX does not look into: their derivative is the one they are given.

Up to JAX 0.11 a `custom_jvp` rule is a suggestion. Inside `lax.scan` partial evaluation
writes the function itself out, and its second derivative goes through the code instead
of the rule: wrong where the code only approximates what the rule differentiates, as the
iterations of a root-finder do (a bisection has derivative zero). A primitive cannot be
written out, so its rule holds in every nesting of every transformation.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from .._types import PyTree
from ._tracing import run_jaxpr


#: `tangent(outputs, inputs, tangents)`: tangents of the outputs, linear in those of the
#: inputs. None stands for zero, of an input as of an output.
Tangent = Callable[
    [Sequence[Array], Sequence[Array], Sequence[Array | None]],
    Sequence[Array | None],
]

# From here to `LinearMap` all goes when JAX 0.12 is the lower bound: it keeps the rule
# of a `jax.custom_jvp` in loops, and `custom_derivative` then makes one.
_sealed = jax.extend.core.Primitive("sealed")
_sealed.multiple_results = True


def custom_derivative(
    function: Callable[..., Sequence[Array]], tangent: Tangent, *inputs: Array
) -> list[Array]:
    """`function(*inputs)`, with the derivative `tangent` of any order and in any mode.

    `tangent` is differentiated itself for higher orders, and transposed for reverse
    mode, so it has to call `custom_derivative` nowhere: outputs that it is handed know
    their own derivative. Neither function may close over what is differentiated or
    batched.
    """
    inputs = tuple(map(jnp.asarray, inputs))
    jaxpr = jax.make_jaxpr(lambda *x: list(function(*x)))(*inputs)
    return _sealed.bind(*inputs, jaxpr=jaxpr, tangent=tangent)


def _run(*inputs, jaxpr, tangent):
    del tangent
    return run_jaxpr(jaxpr, *inputs)


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
    moves = [None if type(t) is ad.Zero else t for t in tangents]
    return outputs, [
        ad.Zero(jax.typeof(y).to_tangent_aval()) if t is None else t
        for y, t in zip(outputs, tangent(outputs, inputs, moves), strict=True)
    ]


def _batched(inputs, axes, *, jaxpr, tangent):
    axes = tuple(axes)

    def run(*x):
        return _run(*x, jaxpr=jaxpr, tangent=tangent)

    wide = jax.make_jaxpr(jax.vmap(run, in_axes=axes, out_axes=0))(*inputs)

    def wide_tangent(outputs, inputs, tangents):
        moves: list[bool] = []

        def nonzero(outputs, inputs, tangents):
            results = tangent(outputs, inputs, tangents)
            moves[:] = [t is not None for t in results]
            return [t for t in results if t is not None]

        moving = [None if t is None else a for t, a in zip(tangents, axes, strict=True)]
        of_batch = jax.vmap(nonzero, in_axes=(0, list(axes), moving), out_axes=0)
        results = iter(of_batch(list(outputs), list(inputs), list(tangents)))
        return [next(results) if moved else None for moved in moves]

    outputs = _sealed.bind(*inputs, jaxpr=wide, tangent=wide_tangent)
    return outputs, [0] * len(outputs)


ad.primitive_jvps[_sealed] = _jvp
batching.primitive_batchers[_sealed] = _batched
mlir.register_lowering(_sealed, mlir.lower_fun(_run, multiple_results=True))
# JAX 0.12 rewrites what holds references, as Equinox's checkpointed loops do, once all
# derivatives are taken; then the rule has done its work.
_sealed.to_lojax = _run  # pyright: ignore[reportAttributeAccessIssue]


#: `map(known, arguments)`, of arrays.
LinearMap = Callable[[Sequence[Any], Sequence[Any]], list[Array]]


class HashablePartial(NamedTuple):
    """`function(*fixed, known, arguments)`.

    Equal to another one that does the same, so that what was compiled is found again.
    """

    function: Callable[..., list[Array]]
    fixed: tuple[Any, ...] = ()

    def __call__(self, known, arguments):
        return self.function(*self.fixed, known, arguments)


class AtOnce(NamedTuple):
    """A map of many arguments on a leading axis, better than `vmap` from `least` on."""

    least: int
    forward: LinearMap
    transposed: LinearMap


class LinearMapRules(NamedTuple):
    """A linear map of `arguments`, given what is `known`, and its transpose.

    The exact ones are the same maps as code that JAX can differentiate in what is
    known, in any mode. `at_once` serves many arguments and one that is known. A map
    that is `short` may be written out by who reads a jaxpr, see `short_map`.
    """

    forward: LinearMap
    transposed: LinearMap
    exact: LinearMap
    exact_transposed: LinearMap
    at_once: AtOnce | None = None
    short: bool = False

    @classmethod
    def plain(
        cls, forward: LinearMap, transposed: LinearMap, **more: Any
    ) -> "LinearMapRules":
        """LinearMapRules whose code is what JAX differentiates as well."""
        return cls(forward, transposed, forward, transposed, **more)

    def transpose(self) -> "LinearMapRules":
        """The transpose, whose transpose is the map."""
        forward, transposed, exact, exact_transposed, at_once, short = self
        if at_once is not None:
            least, many, many_transposed = at_once
            at_once = AtOnce(least, many_transposed, many)
        return LinearMapRules(
            transposed, forward, exact_transposed, exact, at_once, short
        )


_linear = jax.extend.core.Primitive("linear")
_linear.multiple_results = True


def linear(
    maps: LinearMapRules,
    known: Sequence[Any],
    arguments: Sequence[Any],
    types: Sequence[Any],
) -> list[Array]:
    """`maps.forward(known, arguments)`, transposed as `maps` says.

    For maps of which the transpose of the code is not the best code of the transpose,
    or is none at all: `jax.custom_derivatives.linear_call`, with `vmap`. `types`
    are those of the result, by `jax.typeof`, so that a map is traced where it is run
    and nowhere else.
    """
    inputs = [jnp.asarray(x) for x in (*known, *arguments)]
    return _linear.bind(*inputs, maps=maps, known=len(known), types=tuple(types))


def _run_linear(*inputs, maps, known, types):
    del types
    return list(maps.forward(inputs[:known], inputs[known:]))


_linear.def_impl(jax.jit(_run_linear, static_argnames=("maps", "known", "types")))


@_linear.def_abstract_eval
def _linear_abstract(*inputs, maps, known, types):
    del inputs, maps, known
    return types


def _linear_jvp(inputs, tangents, *, maps, known, types):
    outputs = _linear.bind(*inputs, maps=maps, known=known, types=types)
    fixed, arguments = list(inputs[:known]), list(inputs[known:])
    moving = [i for i, t in enumerate(tangents[:known]) if type(t) is not ad.Zero]
    parts = []
    if any(type(t) is not ad.Zero for t in tangents[known:]):
        steps = [ad.instantiate_zeros(t) for t in tangents[known:]]
        parts.append(linear(maps, fixed, steps, types))
    if moving:

        def of_moving(*values):
            every = list(fixed)
            for i, x in zip(moving, values, strict=True):
                every[i] = x
            return list(maps.exact(every, arguments))

        point, step = [fixed[i] for i in moving], [tangents[i] for i in moving]
        parts.append(jax.jvp(of_moving, point, step)[1])
    return outputs, [sum(both[1:], start=both[0]) for both in zip(*parts, strict=True)]


def _linear_transposed(cotangents, *inputs, maps, known, types):
    del types
    bars = [ad.instantiate_zeros(c) for c in cotangents]
    wanted = [ad.is_undefined_primal(x) for x in inputs[known:]]
    pairs = list(zip(inputs[known:], wanted, strict=True))
    turned = [x.aval if w else jax.typeof(x) for x, w in pairs]
    results = linear(maps.transpose(), inputs[:known], bars, turned)
    return [None] * known + [
        x if w else None for x, w in zip(results, wanted, strict=True)
    ]


def _linear_batched(inputs, axes, *, maps, known, types):
    (size,) = {x.shape[a] for x, a in zip(inputs, axes, strict=True) if a is not None}
    # A transpose adds over what is not batched; batched, there is nothing to add.
    arguments = [
        jnp.broadcast_to(x, (size, *x.shape)) if a is None else jnp.moveaxis(x, a, 0)
        for x, a in zip(inputs[known:], axes[known:], strict=True)
    ]

    def wide(one):
        return lambda known_, arguments_: jax.vmap(
            one, in_axes=(list(axes[:known]), 0), out_axes=0
        )(list(known_), list(arguments_))

    stacked = jax.make_jaxpr(
        lambda *x: [jnp.broadcast_to(a, (size, *a.shape)) for a in x]
    )(*types)
    forward, transposed, exact, exact_transposed = map(wide, maps[:4])
    wider = LinearMapRules(
        forward, transposed, exact, exact_transposed, short=maps.short
    )
    many = maps.at_once
    if (
        many is not None
        and size >= many.least
        and not any(axis is not None for axis in axes[:known])
    ):
        wider = wider._replace(forward=many.forward, transposed=many.transposed)
    results = linear(wider, inputs[:known], arguments, stacked.out_avals)
    return results, [0] * len(results)


ad.primitive_jvps[_linear] = _linear_jvp
ad.primitive_transposes[_linear] = _linear_transposed
batching.primitive_batchers[_linear] = _linear_batched
mlir.register_lowering(_linear, mlir.lower_fun(_run_linear, multiple_results=True))


_one_or_many = jax.extend.core.Primitive("one_or_many")


def one_or_many(
    one: Callable[..., Array], many: Callable[..., Array], *inputs: Array
) -> Array:
    """`one(*inputs)`, and `many` of a batch: the same in the code best for each.

    Batched inputs are those of `jax.vmap` and of the tiles of a sweep. Neither function
    may close over arrays. The derivative is that of `one`.
    """
    jaxpr = jax.make_jaxpr(many)(*inputs)
    return _one_or_many.bind(*inputs, one=one, many=jaxpr)


def _run_one(*inputs, one, many):
    del many
    return one(*inputs)


def _one_or_many_jvp(inputs, tangents, *, one, many):
    del many
    return jax.jvp(one, tuple(inputs), tuple(map(ad.instantiate_zeros, tangents)))


def _one_or_many_batched(inputs, axes, *, one, many):
    del one

    def run(*x):
        return run_jaxpr(many, *x)[0]

    return jax.vmap(run, in_axes=tuple(axes))(*inputs), 0


_one_or_many.def_impl(jax.jit(_run_one, static_argnames=("one", "many")))
_one_or_many.def_abstract_eval(lambda *inputs, one, many: many.out_avals[0])
ad.primitive_jvps[_one_or_many] = _one_or_many_jvp
batching.primitive_batchers[_one_or_many] = _one_or_many_batched
mlir.register_lowering(_one_or_many, mlir.lower_fun(_run_one, multiple_results=False))


def tie_tangents(tree: PyTree[Array]) -> PyTree[Array]:
    """The same arrays, of which all have a tangent, and a cotangent, if any has one.

    JAX drops a tangent that it knows to be zero, leaf by leaf. Rules that do not expect
    that of some leaves only, such as that of `jax.lax.custom_linear_solve`, fail there.
    """
    leaves, structure = jax.tree.flatten(tree)
    if len(leaves) < 2:
        return tree
    types = [jax.typeof(leaf) for leaf in leaves]
    return jax.tree.unflatten(structure, linear(_IDENTITY, [], leaves, types))


def _same(known: Sequence[Any], leaves: Sequence[Any]) -> list[Array]:
    del known
    return list(leaves)


_IDENTITY = LinearMapRules.plain(HashablePartial(_same), HashablePartial(_same))
