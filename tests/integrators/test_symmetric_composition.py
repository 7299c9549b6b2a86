"""Compositions by weights of one's own: their order, their runs and their checks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import problems
from diffsim.integrators import (
    KahanLi6,
    KahanLi8,
    Leapfrog,
    SymmetricComposition,
    Yoshida4,
    Yoshida6,
    Yoshida8,
)
from diffsim.simulations import Method, Reversible, simulate


_CUBE_ROOT = 2 ** (1 / 3)
_YOSHIDA4 = SymmetricComposition.from_half([1 / (2 - _CUBE_ROOT)])

# M. Sofroniou and G. Spaletta, Optim. Methods Softw. 20 (2005) 597, order 10.
_SOFRONIOU_SPALETTA = [
    0.07879572252168641926390768,
    0.31309610341510852776481247,
    0.02791838323507806610952027,
    -0.22959284159390709415121340,
    0.13096206107716486317465686,
    -0.26973340565451071434460973,
    0.07497334315589143566613711,
    0.11199342399981020488957508,
    0.36613344954622675119314812,
    -0.39910563013603589787862981,
    0.10308739852747107731580277,
    0.41143087395589023782070412,
    -0.00486636058313526176219566,
    -0.39203335370863990644808194,
    0.05194250296244964703718290,
    0.05066509075992449633587434,
    0.04967437063987972905456880,
    0.04931773575959453791768001,
]


def tripled(solver):
    """Two orders more by Yoshida's recursion: three runs cancel the leading error."""
    order = solver.order(None)
    outer = 1 / (2 - 2 ** (1 / (order + 1)))
    shares = outer, 1 - 2 * outer, outer
    return SymmetricComposition([s * w for s in shares for w in solver.weights])


@pytest.mark.parametrize(
    "solver",
    [Leapfrog(), Yoshida4(), Yoshida6(), KahanLi6(), Yoshida8(), KahanLi8()],
    ids=lambda s: type(s).__name__,
)
def test_order_from_the_conditions_is_the_published_one(solver):
    assert SymmetricComposition(solver.weights).order(None) == solver.order(None)


def test_each_triple_jump_has_two_orders_more():
    solver, orders = Leapfrog(), []
    for _ in range(4):
        solver = tripled(solver)
        orders.append(solver.order(None))
    assert orders == [4, 6, 8, 10]


def test_published_order_of_sofroniou_and_spaletta_is_found_and_observed():
    solver = SymmetricComposition.from_half(_SOFRONIOU_SPALETTA)
    assert solver.order(None) == 10 and solver.evaluations == 35

    # One step of q' = p, p' = -q errs by the power order + 1.
    def error(h):
        q, p = 1.0, 0.0
        for w in solver.weights:
            q = q + w * h / 2 * p
            p = p - w * h * q
            q = q + w * h / 2 * p
        return np.hypot(q - np.cos(h), p + np.sin(h))

    slope = np.log2(error(2.0) / error(1.0))
    assert slope == pytest.approx(11, abs=0.5)


def test_half_with_or_without_the_middle_makes_the_same_weights():
    outer = 1 / (2 - _CUBE_ROOT)
    both = [outer], [outer, 1 - 2 * outer]
    for half in both:
        found = SymmetricComposition.from_half(half)
        assert found.weights == pytest.approx(Yoshida4().weights, abs=1e-15)
    # Two runs of half the length: an even number of steps, none of which is the middle.
    half = [w / 2 for w in Yoshida4().weights]
    assert SymmetricComposition.from_half(half).weights == pytest.approx(2 * half)


@pytest.mark.slow
def test_weights_of_yoshida_give_the_run_of_yoshida_in_every_way():
    system = problems.figure_eight()

    def end(solver, adjoint, velocities):
        moved = eqx.tree_at(lambda s: s.bodies.velocities, system, velocities)
        method = Method(solver, 0.05, adjoint=adjoint)
        return simulate(moved, 1.0, method).states.positions

    at = system.bodies.velocities
    many = jnp.stack([at, 1.01 * at])

    def run_and_gradients(solver):
        def height(v, adjoint=None):
            return jnp.sum(end(solver, adjoint, v) ** 3)

        batch, slopes = jax.vmap(jax.value_and_grad(height))(many)
        return batch, slopes[0], jax.grad(height)(at, Reversible())

    ours, theirs = map(
        jax.jit(run_and_gradients, static_argnums=0), (_YOSHIDA4, Yoshida4())
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ours[1], ours[2], rtol=1e-10, atol=1e-11)
