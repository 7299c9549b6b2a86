"""What is wrong in a call of `implicit` is said in one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from sentences import of, pairs, raises, table

from diffsim.implicit import (
    Anderson,
    Banded,
    BlockTridiagonal,
    BracketedNewton,
    Dense,
    ImplicitAdjoint,
    Krylov,
    LaggedLU,
    Newton,
    NewtonKrylov,
    Picard,
    Tridiagonal,
    adjoint_report,
    fixed_point,
    least_squares,
    linear_solve,
    minimise,
    root,
)


A, B, ONES = jnp.eye(4), jnp.ones(4), jnp.ones(3)
OPTX = optx.Newton(1e-8, 1e-8)
REVERSE = ImplicitAdjoint(mode="reverse")
BACKWARD = Newton(linear_solver=Krylov(), backward=True)
LAYERS = {
    "residual": root,
    "function": fixed_point,
    "objective": minimise,
    "residuals": least_squares,
}


def same(y, _):
    return y


def cubic(y, a):
    return y**3 + y - a


def inner(a):
    return root(lambda z, a: z**2 + 1 + a**2, 1.0, a, max_steps=8)


def plane(y, _):
    return jnp.stack([y[0] + y[1] - 1, 2 * (y[0] + y[1] - 1)])


def solved_by(linear_solver, guess):
    adjoint = ImplicitAdjoint(linear_solver)
    return root(lambda y, _: jax.tree.map(lambda a: a - 1, y), guess, adjoint=adjoint)


@pytest.mark.parametrize("name", LAYERS)
@table(
    of(
        lambda f, layer: layer(f, 1.0),
        (lambda y, _: np.sin(y), "{} calls NumPy or SciPy"),
        (lambda y, _: y - 1 if y > 0 else y, "{} decides by a value"),
        (lambda y, _: float(y) - 1, "{} makes a Python number"),
    ),
    of(
        lambda solver, layer: layer(lambda y, _: y**2, 1.0, solver=solver),
        (Newton, r"got the class Newton; Newton\("),
        ("hybr", r"solver must be an object such as .*, got 'hybr'"),
    ),
)
def test_mistake_in_any_layer_raises_value_error(name, call, words):
    raises(ValueError, lambda: call(LAYERS[name]), words.format(name))


@table(
    of(
        lambda name: LAYERS[name](lambda y, _: 1.0, 1.0),
        ("residual", "residual must return real arrays made of y, got"),
        ("function", "function must return real arrays made of y, got"),
        ("residuals", "residuals must return real arrays made of y, got"),
    ),
    of(
        lambda operator: linear_solve(operator, ONES),
        (lambda v: v**2, "operator must be linear in the array"),
        (lambda v: v * v, "operator must be linear in the array"),
        (jnp.abs, "operator must be linear in the array"),
        (jnp.sin, "operator must be linear in the array"),
        (lambda v: jnp.where(v > 0, 2 * v, v), "operator must be linear in the array"),
        (np.sin, "operator calls NumPy or SciPy"),
        (A[:3], "operator must be a square matrix"),
        (lambda x: x[:2], "operator must return as many numbers as b"),
    ),
    of(
        lambda solver: solver(rtol=0.0),
        (Newton, "rtol must be positive where no atol is, got 0"),
        (NewtonKrylov, "rtol must be positive where no atol is, got 0"),
        (Anderson, "rtol must be positive where no atol is, got 0"),
        (Picard, "rtol must be positive where no atol is, got 0"),
        (Krylov, "rtol must be positive where no atol is, got 0"),
    ),
    of(
        lambda solver: solver(rtol=-1.0),
        (Newton, "rtol must not be negative, got -1"),
        (NewtonKrylov, "rtol must not be negative, got -1"),
        (Anderson, "rtol must not be negative, got -1"),
        (Picard, "rtol must not be negative, got -1"),
        (Krylov, "rtol must not be negative, got -1"),
    ),
    of(
        lambda adjoint: root(same, 1.0, solver=OPTX, adjoint=adjoint),
        (Dense(), r"such as diffsim\.implicit\.ImplicitAdjoint\("),
        (optx.ImplicitAdjoint(), r"\), which is not Optimistix's"),
        ("reverse", r"such as diffsim\.implicit\.ImplicitAdjoint\("),
    ),
    pairs(
        lambda: fixed_point(lambda y, _: y[:2], ONES),
        "function must return as many numbers",
        lambda: Newton(rtol=np.nan),
        "rtol must not be negative, got nan",
        lambda: Newton(atol=-1e-9),
        "atol must not be negative, got -1e-09",
        lambda: BracketedNewton(0.0, 1.0, tolerance=-1.0),
        "tolerance must not be negative, got -1",
        lambda: NewtonKrylov(forcing=0.0),
        "forcing must be positive, got 0",
        lambda: Picard(damping=-1.0),
        "damping must be positive, got -1",
        lambda: Anderson(memory=0),
        "memory must be a whole number from 1, got 0",
        lambda: linear_solve(A, np.arange(4)),
        "b must hold floating arrays, got dtype int",
        lambda: adjoint_report(same, B, None, ONES),
        "cotangent must return as many numbers as y",
        lambda: solved_by(Tridiagonal(), jnp.zeros(2)),
        "needs 3 unknowns or more, got 2",
        lambda: solved_by(Tridiagonal(), (ONES, ONES)),
        "solves for one array of shape",
        lambda: solved_by(BlockTridiagonal(), ONES),
        r"shape \(\.\.\., n, m\), got",
        lambda: Banded(0, 0),
        "lower and upper must be 0 or more, and not",
        lambda: LaggedLU(refinement_steps=0),
        "refinement_steps must be a whole number from 1, got 0",
        lambda: root(cubic, 2.0, 1.0, solver=BACKWARD),
        "linear_solver must factor for Newton's steps",
        lambda: minimise(same, ONES),
        "objective must return one number, got",
        lambda: least_squares(same, 1.0, hessian="exact"),
        r"hessian must be one of .*, got 'exact'",
        lambda: NewtonKrylov(linear_solver=Dense()),
        r"such as implicit\.Krylov\(\), got D",
        lambda: optx.root_find(
            cubic, OPTX, 0.3, 0.4, adjoint=ImplicitAdjoint(refinements=1)
        ),
        "refinements=0 in a function of Optimistix",
        lambda: root(lambda y, _: y**2 + 1j, 1.0),
        "residual must return real arrays",
        lambda: root(lambda y: y, 0.7),
        r"residual must take \(y, args\), got",
        lambda: root(same, 1),
        "guess must hold floating arrays, got dtype int",
        lambda: root(same, 1j),
        "guess must hold floating arrays, got dtype complex128",
        lambda: root(lambda y, _: y[:2], np.ones(3)),
        r"got \(2,\), expected \(3,\)",
        lambda: root(lambda y, _: (y, y), 1.0),
        r"same structure: got \(\(\), \(\)\), expected \(\)",
        lambda: root(same, 1.0, max_steps=0),
        "max_steps must be a whole number from 1, got 0",
        lambda: ImplicitAdjoint(mode="implicit"),
        r"mode must be one of .*, got 'implicit'",
        lambda: ImplicitAdjoint(refinements=-1),
        "refinements must be a whole number from 0, got -1",
        lambda: jax.jvp(lambda a: root(cubic, 1.0, a, adjoint=REVERSE), (2.0,), (1.0,)),
        r"differentiated forward.* jax\.jacrev",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)


@table(
    pairs(
        lambda: root(lambda y, _: y**2 + 1, 0.7),
        r"^The maximum number of steps.*$",
        lambda: root(lambda y, _: y**2 + 1, 1.0),
        "stopped where the residual does not vanish",
        lambda: root(lambda y, _: jnp.cosh(y), 0.0),
        "stopped where the residual does not vanish",
        lambda: root(lambda y, _: y**2 + 1, 1.0, solver=NewtonKrylov()),
        "stopped where the residual does not vanish",
        lambda: root(lambda y, _: 1 + y**4, 1.0, solver=NewtonKrylov()),
        "stopped where the residual does not vanish",
        lambda: root(lambda y, _: jnp.stack([y[0] ** 2 + 1, y[1] - 3]), jnp.ones(2)),
        "stopped where the residual does not vanish",
        lambda: root(lambda y, _: y**2 + 1, 0.7, solver=BracketedNewton(0.0, 1.0)),
        "the same sign at both ends",
        lambda: root(
            lambda y, _: y**3 - 8, 1.0, solver=BracketedNewton(0.0, 1e6, steps=4)
        ),
        "maximum number of steps",
        lambda: root(lambda y, _: y - 1, jnp.nan),
        "The guess is infinite or not a number",
        lambda: root(plane, jnp.zeros(2)),
        "is singular or not of",
        lambda: root(lambda z, _: z - inner(z), 1.0),
        "Nonfinite",
        lambda: linear_solve(lambda v: v * inner(1.0), jnp.ones(2)),
        "A linear system could not be solved",
    )
)
def test_failure_raises_runtime_error_with_its_cause(call, words):
    raises(RuntimeError, call, words)
