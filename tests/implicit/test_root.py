"""A root has the derivative of its equation, in every mode and transformation."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx
import pytest
from jax.flatten_util import ravel_pytree

import diffsim as ds
from diffsim import inference
from diffsim._results import RESULTS
from diffsim.implicit import (
    BracketedNewton,
    Dense,
    Diagonal,
    ImplicitAdjoint,
    LineaxSolver,
    root,
    root_solution,
)


KEYS = jax.random.split(jax.random.key(0))
MATRIX = 4 * jnp.eye(4) + 0.5 * jax.random.normal(KEYS[0], (4, 4))
THETA = {"a": jnp.array(0.3), "b": jax.random.normal(KEYS[1], (4,)), "n": 3}
P0, UNRAVEL = ravel_pytree({"a": THETA["a"], "b": THETA["b"]})
GMRES = LineaxSolver(lx.GMRES(rtol=1e-13, atol=1e-13, restart=4))


def residual(y, theta):
    z = MATRIX @ y + theta["a"] * y
    return z ** theta["n"] + z - theta["b"]


def theta_of(p):
    return UNRAVEL(p) | {"n": 3}


def explicit(adjoint):
    return lambda p: root(residual, jnp.zeros(4), theta_of(p), adjoint=adjoint)


def closed_over(adjoint):
    return lambda p: root(
        lambda y, _: residual(y, theta_of(p)), jnp.zeros(4), adjoint=adjoint
    )


def closed_form(p):
    """Cardano's root of z³ + z = b, and the linear system behind it."""
    theta = theta_of(p)
    s = jnp.sqrt(theta["b"] ** 2 / 4 + 1 / 27)
    z = jnp.cbrt(theta["b"] / 2 + s) + jnp.cbrt(theta["b"] / 2 - s)
    return jnp.linalg.solve(MATRIX + theta["a"] * jnp.eye(4), z)


def scanned(solve):
    """Where a derivative rule that is a mere suggestion is ignored."""

    def step(p, _):
        y = solve(p)
        return 0.99 * p + 1e-3 * jnp.sum(y), y

    return lambda p: jnp.sum(jax.lax.scan(step, p, None, length=2)[1] ** 2)


MODES = {
    "value": lambda f: f,
    "forward": jax.jacfwd,
    "reverse": jax.jacrev,
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
}
ADJOINTS = {
    "dense": ImplicitAdjoint(Dense()),
    "lineax": ImplicitAdjoint(GMRES),
    "polished": ImplicitAdjoint(refinements=1),
}


def in_modes(solve, names):
    def every(p):
        return {name: MODES[name](scanned(solve))(p) for name in names}

    return jax.jit(every)(P0)


@functools.cache
def exact(*names):
    return in_modes(closed_form, names)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "adjoint"),
    [
        (explicit, "dense"),
        *(
            (told, adjoint)
            for told in (explicit, closed_over)
            for adjoint in ("lineax", "polished")
        ),
    ],
)
def test_every_mode_is_right_inside_a_scan(told, adjoint):
    """In plain rows two nestings are, of test_optimistix.py."""
    found, known = in_modes(told(ADJOINTS[adjoint]), MODES), exact(*MODES)
    for name in MODES:
        np.testing.assert_allclose(found[name], known[name], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "adjoint",
    [
        pytest.param(ImplicitAdjoint(mode="reverse"), id="reverse"),
        pytest.param(
            optx.RecursiveCheckpointAdjoint(), id="unrolled", marks=pytest.mark.slow
        ),
    ],
)
def test_reverse_mode_adjoints_have_the_same_gradient(adjoint):
    found = jax.jit(jax.grad(scanned(explicit(adjoint))))(P0)
    np.testing.assert_allclose(found, exact("reverse")["reverse"], rtol=1e-10)


@pytest.mark.gpu
def test_batch_member_without_a_root_leaves_the_others_unchanged():
    def solve(a):
        return root_solution(lambda y, a: y**2 - a, 1.0, a, throw=False)

    at = jnp.array([2.0, -1.0, 3.0])

    def both(a):
        return solve(a), jax.grad(lambda a: solve(a).value)(a)

    found, slopes = jax.jit(jax.vmap(both))(at)
    fine = np.array([True, False, True])
    np.testing.assert_array_equal(found.status == RESULTS.successful, fine)
    np.testing.assert_array_equal(np.isfinite(found.value), fine)
    np.testing.assert_array_equal(np.isfinite(slopes), fine)
    np.testing.assert_allclose(found.value[fine], np.sqrt(at[fine]), rtol=1e-15)
    np.testing.assert_allclose(slopes[fine], 0.5 / np.sqrt(at[fine]), rtol=1e-14)


def test_minimum_of_the_residual_is_not_reported_as_a_root():
    found = root_solution(
        lambda y, _: y**2 + 1,
        1.0,
        solver=optx.Dogleg(rtol=1e-8, atol=1e-8),
        throw=False,
    )
    assert found.status != RESULTS.successful
    assert np.isnan(found.value)


def test_derivative_by_the_guess_is_zero():
    slope = jax.grad(lambda guess: root(lambda y, _: y**3 - 2.0, guess))(1.3)
    assert slope == 0


def test_newton_refinement_squares_the_error():
    rough = optx.Newton(rtol=1e-1, atol=1e-1)
    exact = root(lambda y, a: y**3 + y - a, 0.7, 1.3)

    def errors(refinements):
        def solve(a):
            adjoint = ImplicitAdjoint(refinements=refinements)
            return root(
                lambda y, a: y**3 + y - a, 0.7, a, solver=rough, adjoint=adjoint
            )

        value, slope = jax.value_and_grad(solve)(1.3)
        return [abs(value / exact - 1), abs(slope * (3 * exact**2 + 1) - 1)]

    for before, after in zip(errors(0), errors(1), strict=True):
        assert 1e-7 < before < 1e-2
        assert after < 2 * before**2


def test_matrix_free_solver_forms_no_matrix():
    n = 50

    def heat(u, k):
        return u - 0.1 * k * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)) - jnp.ones(n)

    gmres = LineaxSolver(lx.GMRES(rtol=1e-10, atol=1e-10))
    newton = optx.Newton(1e-8, 1e-8, linear_solver=gmres.solver)

    def loss(k):
        solved = root(
            heat, jnp.ones(n), k, solver=newton, adjoint=ImplicitAdjoint(gmres)
        )
        return jnp.sum(solved**2)

    assert f"[{n},{n}]" not in str(jax.make_jaxpr(jax.grad(loss))(1.0))


def test_single_precision_is_kept():
    def solve(a):
        return root(lambda y, a: y**3 + y - a, jnp.float32(1), a)

    found, slope = jax.value_and_grad(solve)(jnp.float32(1.3))
    assert found.dtype == slope.dtype == jnp.float32
    np.testing.assert_allclose(found**3 + found, 1.3, rtol=1e-6)


def square_root(model, **options):
    """No root below zero."""
    return root(lambda y, a: y**2 - a, 1.0, model[0], **options)


def test_failed_root_in_a_sweep_leaves_other_runs_unchanged():
    given = {"[0]": np.array([4.0, -1.0, 9.0])}
    found = ds.sweep(square_root, jnp.ones(1), given)
    np.testing.assert_allclose(found.outputs, [2.0, np.nan, 3.0], rtol=1e-12)
    assert found.successful.tolist() == [True, False, True]
    with pytest.raises(RuntimeError):
        ds.sweep(lambda a: square_root(a, throw=True), jnp.ones(1), given)


@pytest.mark.slow
def test_failed_root_in_a_fit_rejects_the_step():
    """From 4 the first step goes below zero, where there is no root."""
    noise, start = inference.Gaussian(1e-3), jnp.array([4.0])
    found = ds.fit(square_root, start, jnp.asarray(0.1), noise=noise)
    np.testing.assert_allclose(found.model, 0.01, rtol=1e-9)
    with pytest.raises(RuntimeError):
        square_root(jnp.array([-1.0]))


def test_printed_solution_has_status_value_and_residual():
    def told(sign):
        return str(root_solution(lambda y, _: y**2 + sign, 1.5, throw=False))

    assert told(-2.25).startswith("successful\n  value 1.5\n  largest residual 0 after")
    assert "maximum number of steps" in told(1.0)
    many = jax.vmap(lambda a: root_solution(lambda y, a: y - a, a, a))(jnp.ones(2))
    assert "value=f64[2]" in str(many)


def test_a_solution_is_shown_wherever_it_is_looked_at():
    shown = []

    def solve(a):
        found = root_solution(lambda y, a: y - a, a, a, throw=False)
        shown.extend([repr(found), str(found)])
        return found

    found = jax.block_until_ready(jax.jit(solve)(jnp.ones(3)))
    assert [text.splitlines()[0] for text in shown] == ["Solution(", "Solution("]
    assert repr(found) == str(found)
    assert repr(found).startswith("successful\n  value [1. 1. 1.]\n")
    for leaf in (None, object()):
        assert "Solution" in repr(jax.tree.map(lambda _, leaf=leaf: leaf, found))
    tall = dataclasses.replace(found, value=jnp.ones((99, 2)))
    assert "… and 79 more" in repr(tall)


@pytest.mark.slow
def test_factorization_is_reused_over_newton_steps():
    """Fewer factorizations than Newton's method takes, and the same root."""
    theta = jnp.linspace(0.5, 1.5, 6)
    matrix = 4 * jnp.eye(6) + jax.random.normal(KEYS[1], (6, 6))

    def coupled(y, theta):
        return matrix @ y + theta[0] * y**3 - 5 * theta

    found = root_solution(coupled, jnp.zeros(6), theta)
    plain = optx.root_find(coupled, optx.Newton(1e-10, 1e-10), jnp.zeros(6), theta)
    # Each unknown has the rounding of all, up to 2; one of 0.02 differed by 2e-16.
    np.testing.assert_allclose(found.value, plain.value, rtol=0, atol=2e-15)
    assert found.iterations <= plain.stats["num_steps"] - 2


def test_bracketed_search_that_stops_early_finds_the_same_roots():
    levels = jnp.geomspace(1e-3, 1e3, 50)
    found = [
        root(
            lambda x, level: x * jnp.exp(x) - level,
            jnp.ones(50),
            levels,
            solver=BracketedNewton(0.0, 10.0, tolerance=tolerance),
            adjoint=ImplicitAdjoint(Diagonal()),
        )
        for tolerance in (0.0, 1e-8)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-14)
