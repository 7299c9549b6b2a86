"""Kværnø's methods with our own stages: published answers, exact derivatives."""

import functools
import math
import re

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from jax.extend.core import jaxprs_in_params
from rows import first_plain

from diffsim.implicit import (
    AbstractLinearSolver,
    Banded,
    BiCGStab,
    BlockTridiagonal,
    Dense,
    ForwardAdjointSolvers,
    Krylov,
    LaggedLU,
    Tridiagonal,
)
from diffsim.integrators import Kvaerno3, Kvaerno5
from diffsim.simulations import Checkpointed, Method, simulate
from diffsim.verify import convergence, taylor_test


def final(simulation, time, method):
    return simulate(simulation, time, method).states


@pytest.mark.parametrize(
    ("solver", "steps"),
    [(Kvaerno3, 32), pytest.param(Kvaerno5, 16, marks=pytest.mark.slow)],
)
def test_observed_order_is_the_order(kaps, solver, steps):
    simulation, tight = kaps(start=(2.0, 1.0, 0.5)), solver(rtol=1e-13)
    found = convergence(
        lambda h: final(simulation, 1.0, Method(tight, h)),
        [1 / steps, 1 / (2 * steps), 1 / (4 * steps)],
        exact=final(simulation, 1.0, Method(diffrax.Dopri8(), 1 / 256)),
    )
    assert found.order == pytest.approx(solver().order(None), abs=0.1)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("solver", [Kvaerno3, Kvaerno5])
def test_steps_and_states_are_those_of_diffrax(kaps, solver):
    simulation = kaps(1e-2, start=(0.5, 1.0, 0.5))
    theirs = getattr(diffrax, solver.__name__)(root_finder=optx.Newton(1e-9, 1e-9))
    # Clipped, as otherwise ours would end at the outputs.
    controller = diffrax.ClipStepSizeController(
        diffrax.PIDController(rtol=1e-6, atol=1e-6)
    )
    times = np.linspace(0.1, 2, 5)
    ours, other = (
        simulate(
            simulation,
            times,
            Method(
                s,
                controller=controller,
                adjoint=diffrax.RecursiveCheckpointAdjoint(),
            ),
        )
        for s in (solver(), theirs)
    )
    assert ours.stats["num_steps"] == other.stats["num_steps"]
    # Their Newton method stops at 1e-9; measured 9e-10.
    np.testing.assert_allclose(ours.states, other.states, rtol=0, atol=3e-9)


STRUCTURES = {
    "Dense": Dense(),
    "LaggedLU": LaggedLU(),
    "Split": ForwardAdjointSolvers(Dense(), Krylov()),
    "Tridiagonal": Tridiagonal(),
    "Banded": Banded(2, 1),
    "Krylov": Krylov(),
    "BiCGStab": Krylov(BiCGStab(), preconditioner=lambda v: 1.5 * v),
}


@pytest.fixture(scope="module")
def solved(diffusion):
    """Makes a run and its gradient, by a linear solver."""

    def run(simulation, linear_solver):
        method = Method(Kvaerno3(linear_solver=linear_solver), 0.01)
        return jnp.sum(final(simulation, 0.03, method) ** 2)

    both = eqx.filter_value_and_grad(run)
    return functools.cache(lambda name: both(diffusion(9), STRUCTURES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STRUCTURES if name != "Dense"])
def test_every_linear_solver_gives_the_same_run_and_gradient(solved, name):
    found, expected = solved(name), solved("Dense")
    # The tolerance of the stages.
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_block_tridiagonal_solver_decouples_independent_systems(kaps):
    one = kaps(0.1)
    both = eqx.tree_at(lambda s: s.start, one, jnp.tile(one.start, (4, 1)))

    class Many(type(one)):
        def terms(self):
            inner = type(one).terms(self)
            return diffrax.ODETerm(
                lambda t, y, args: jax.vmap(lambda z: inner.vf(t, z, args))(y)
            )

    many = Many(both.epsilon, both.start, both.s)
    found = final(many, 0.3, Method(Kvaerno5(linear_solver=BlockTridiagonal()), 0.1))
    alone = final(one, 0.3, Method(Kvaerno5(), 0.1))
    np.testing.assert_allclose(found, np.tile(alone, (4, 1)), rtol=1e-11)


def largest_array(function, *given):
    """Entries of the largest array in the program, inside loops and rules as well."""
    program = jax.jit(function).lower(*given).as_text()
    shapes = re.findall(r"tensor<((?:\d+x)+)", program)
    return max(math.prod(map(int, shape.split("x")[:-1])) for shape in shapes)


@pytest.mark.parametrize(
    "linear_solver",
    [
        pytest.param(Tridiagonal(), id="Tridiagonal"),
        pytest.param(Krylov(BiCGStab()), id="Krylov", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("step", first_plain([0.01, None]), ids=["fixed", "adaptive"])
def test_structured_solvers_form_no_dense_matrix_in_run_or_gradient(
    diffusion, linear_solver, step
):
    n, simulation = 300, diffusion(300)

    def loss(start, linear_solver=linear_solver):
        given = eqx.tree_at(lambda s: s.start, simulation, start)
        method = Method(Kvaerno5(linear_solver=linear_solver), step, max_steps=16)
        return jnp.sum(simulate(given, 0.02, method, throw=False).states ** 2)

    for function in (loss, jax.grad(loss)):
        # Seven stages of bands and slopes, and of an adaptive run every step of them.
        assert largest_array(function, simulation.start) < n**2 / 2
    assert largest_array(lambda y: loss(y, Dense()), simulation.start) >= n**2


def primitives_of(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inside in jaxprs_in_params(eqn.params):
            yield from primitives_of(inside)


def test_one_factorization_serves_all_stages(diffusion):
    method = Method(Kvaerno5(), 0.1)
    given = diffusion(5)

    def run(start):
        return final(eqx.tree_at(lambda s: s.start, given, start), 0.3, method)

    program = jax.make_jaxpr(run)(given.start)
    assert list(primitives_of(program.jaxpr)).count("lu") == 1


class Counting(AbstractLinearSolver):
    """Dense, and a note of every matrix that is factored."""

    notes: list = eqx.field(static=True)

    def prepare(self, operator, y, hint=None, *, transposed=False):
        jax.debug.callback(lambda _: self.notes.append(1), jnp.sum(y))
        return Dense().prepare(operator, y, hint, transposed=transposed)

    def solve(self, state, operator, b):
        return Dense().solve(state, operator, b)

    def solve_transpose(self, state, transposed, b):
        return Dense().solve_transpose(state, transposed, b)


class Notes(list):
    """A list that may be static: JAX hashes it."""

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("step", "most"),
    # 100 steps of a system that hardly changes, and about 150 adaptive ones.
    first_plain([(0.01, 5), (None, 0.7)]),
)
def test_factorization_is_reused_over_steps(kaps, step, most):
    notes = Notes()
    method = Method(Kvaerno5(linear_solver=Counting(notes)), step)
    run = simulate(kaps(1e-2), 1.0, method)
    jax.effects_barrier()
    count, steps = len(notes), int(run.stats["num_steps"])
    assert 1 <= count <= (most if step else most * steps), (count, steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        Method(Kvaerno3(), 0.1),
        Method(Kvaerno5(), 0.1, adjoint=Checkpointed(2)),
        Method(
            Kvaerno5(), 0.1, controller=diffrax.PIDController(1e-4, 1e-4), max_steps=8
        ),
    ],
    ids=["Kvaerno3", "checkpointed", "adaptive"],
)
def test_every_leaf_has_its_derivative_in_both_modes(kaps, method):
    simulation, times = kaps(0.02, start=(0.8, 1.0, 0.5)), np.array([0.13, 0.4])
    if method.adaptive:
        method = method.freeze_steps(simulate(simulation, times, method))
    report = taylor_test(lambda s: simulate(s, times, method), simulation)
    assert set(report.slopes) == {"epsilon", "start", "s"}
    for leaf in report.leaves:
        assert leaf.flag == "", (leaf.name, leaf.flag)
        assert leaf.slopes == pytest.approx({"forward": 2, "reverse": 2}, abs=0.1)
    assert report.disagreement < 1e-10


@pytest.fixture(scope="module")
def slope_by(kaps):
    """Makes the gradient of a run, by an adjoint."""

    @functools.cache
    def slope(adjoint):
        def loss(start):
            method = Method(Kvaerno3(), 0.1, adjoint=adjoint, max_steps=8)
            return jnp.sum(final(kaps(0.1, start=start), 0.4, method) ** 2)

        forward = isinstance(adjoint, diffrax.ForwardMode)
        start = jnp.asarray([0.8, 1.0, 0.5])
        return (jax.jacfwd if forward else jax.grad)(loss)(start)

    return slope


@pytest.mark.slow
@pytest.mark.parametrize(
    "adjoint",
    [
        diffrax.RecursiveCheckpointAdjoint(),
        diffrax.DirectAdjoint(),
        diffrax.ForwardMode(),
    ],
    ids=lambda a: type(a).__name__,
)
def test_diffrax_adjoints_give_the_gradient_of_the_default_adjoint(slope_by, adjoint):
    np.testing.assert_allclose(slope_by(adjoint), slope_by(None), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("controller", [None, diffrax.PIDController(1e-5, 1e-5)])
def test_second_derivatives_agree_in_every_nesting(kaps, controller):
    method = Method(Kvaerno3(), 0.1, controller=controller, max_steps=32)

    def loss(start):
        return jnp.sum(final(kaps(0.1, start=start), 0.3, method) ** 2)

    start, h = jnp.asarray([0.8, 1.0, 0.5]), 1e-4
    modes = [jax.jacfwd, jax.jacrev]
    # Of adaptive steps test_replay.py nests the modes in every way, and of stages the
    # fixed steps here; one reverse mode shows that they go together.
    outer = modes if controller is None else modes[:1]
    one, *others = (jax.jit(a(b(loss)))(start) for a in outer for b in modes)
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)
    if controller is None:
        slope = jax.jit(jax.grad(loss))
        moved = [(slope(start + e) - slope(start - e)) / (2 * h) for e in h * np.eye(3)]
        np.testing.assert_allclose(one, moved, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("controller", [None, diffrax.PIDController(1e-5, 1e-5)])
def test_jit_and_vmap_give_the_eager_value_and_gradient(kaps, controller):
    method = Method(Kvaerno3(), 0.1, controller=controller, max_steps=32)

    def loss(start):
        return jnp.sum(final(kaps(0.1, start=start), 0.3, method) ** 2)

    starts = jnp.asarray([[0.8, 1.0, 0.5], [1.2, 0.7, -0.3]])
    both = jax.value_and_grad(loss)
    loop = [both(start) for start in starts]
    compiled = [jax.jit(both)(start) for start in starts]
    batch = jax.jit(jax.vmap(both))(starts)
    for found in (jax.tree.map(lambda *x: jnp.stack(x), *compiled), batch):
        expected = jax.tree.map(lambda *x: jnp.stack(x), *loop)
        for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.slow
def test_outputs_before_and_after_the_epoch_and_off_the_grid_are_accurate(kaps):
    simulation, times = kaps(), np.array([-0.37, 0.0, 0.52])
    exact = simulate(simulation, times, Method(diffrax.Dopri8())).states
    fixed = simulate(simulation, times, Method(Kvaerno5(), 0.05)).states
    np.testing.assert_allclose(fixed, exact, rtol=1e-5)
    adaptive = simulate(simulation, times, Method(Kvaerno5())).states
    # Dense output is of order 3.
    np.testing.assert_allclose(adaptive, exact, rtol=1e-6)


@pytest.mark.slow
def test_single_precision_stays_single(kaps):
    simulation = kaps(0.01, dtype=jnp.float32)
    for method in (Method(Kvaerno5(), 0.05), Method(Kvaerno5(), controller=_ROUGH)):
        states = simulate(simulation, np.array([0.2, 0.5]), method).states
        assert states.dtype == np.float32
        exact = np.exp([[-0.4, -0.2], [-1.0, -0.5]])
        np.testing.assert_allclose(states[:, :2], exact, rtol=1e-4)


_ROUGH = diffrax.PIDController(rtol=1e-4, atol=1e-4)
