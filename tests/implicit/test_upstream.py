"""Defects of other libraries that diffsim works around.

A release that mends one fails here. Each is in docs/limits.md with the releases that
have it; its workaround can go when the oldest supported release no longer does.
"""

import diffrax
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx
import pytest
from rows import first_plain


def by_optimistix(a):
    return optx.root_find(
        lambda y, a: y**3 + y - a, optx.Bisection(1e-12, 1e-12), 0.3, a, options=BOUNDS
    ).value


BOUNDS = {"lower": -5.0, "upper": 5.0}


@jax.custom_jvp
def by_bisection(a):
    def halved(_, ends):
        middle = sum(ends) / 2
        return jax.lax.cond(
            middle**3 + middle < a,
            lambda: (middle, ends[1]),
            lambda: (ends[0], middle),
        )

    return sum(jax.lax.fori_loop(0, 60, halved, (-5.0, 5.0))) / 2


@by_bisection.defjvp
def _(primals, tangents):
    y = by_bisection(*primals)
    return y, tangents[0] / (3 * y**2 + 1)


@pytest.mark.xfail(
    jax.__version_info__ < (0, 12),
    raises=AssertionError,
    reason="JAX before 0.12: custom_jvp under scan",
)
@pytest.mark.parametrize("solve", first_plain([by_bisection, by_optimistix]))
def test_custom_jvp_holds_in_the_hessian_of_a_scan(solve):
    def scanned(a):
        return jax.lax.scan(lambda _, a: (a, solve(a)), a, a[None])[1][0]

    a = jnp.asarray(0.4)
    y = by_bisection(a)
    hessian = jax.jacfwd(jax.jacrev(scanned))(a)
    np.testing.assert_allclose(hessian, -6 * y / (3 * y**2 + 1) ** 3, rtol=1e-8)


def decayed(solver, y0):
    term = diffrax.ODETerm(lambda t, y, args: -y)
    adjoint = diffrax.DirectAdjoint()
    return diffrax.diffeqsolve(
        term, solver, 0, 1, 0.1, y0, adjoint=adjoint, max_steps=16
    ).ys


@pytest.mark.xfail(raises=TypeError, reason="Optimistix: Chord keeps a linearization")
def test_diffrax_very_chord_runs_with_gmres():
    gmres = lx.GMRES(1e-8, 1e-8)
    solver = diffrax.Kvaerno3(
        root_finder=diffrax.VeryChord(1e-8, 1e-8, linear_solver=gmres)
    )
    assert np.all(np.isfinite(decayed(solver, jnp.ones(3))))


@pytest.mark.xfail(raises=AssertionError, reason="Diffrax: stages have no adjoint")
def test_gradient_of_diffrax_stages_by_gmres_is_matrix_free():
    n, gmres = 50, lx.GMRES(1e-8, 1e-8)
    solver = diffrax.Kvaerno3(root_finder=optx.Newton(1e-8, 1e-8, linear_solver=gmres))

    def loss(y0):
        return jnp.sum(decayed(solver, y0))

    assert f"[{n},{n}]" not in str(jax.make_jaxpr(jax.grad(loss))(jnp.ones(n)))


@pytest.mark.xfail(
    jax.default_backend() == "cpu" and jax.__version_info__ >= (0, 10, 2),
    raises=AssertionError,
    reason="XLA of JAX 0.10.2 and later: reductions of 4096 entries and more",
)
def test_max_of_an_array_with_nan_is_nan():
    assert np.isnan(jnp.max(jnp.zeros(4096).at[7].set(jnp.nan)))


@pytest.mark.xfail(raises=AssertionError, reason="Lineax: 0 / 0")
def test_lineax_bicgstab_gives_zero_for_a_zero_right_hand_side():
    operator = lx.MatrixLinearOperator(2 * jnp.eye(3))
    solver = lx.BiCGStab(1e-8, 1e-8)
    found = lx.linear_solve(operator, jnp.zeros(3), solver, throw=False)
    np.testing.assert_array_equal(found.value, 0)
