"""Every derivative in every mode, against the closed form."""

import itertools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.simulations import Checkpointed, Method, Reversible, Separable, simulate


#: On every grid; derivatives off the grid are those by times, in another file.
_TIMES = np.array([0.6, 1.2])
_METHODS = {
    "symplectic": Method(Yoshida4(), 0.1),
    "checkpointed": Method(Yoshida4(), 0.1, adjoint=Checkpointed()),
    "explicit": Method(diffrax.Bosh3(), 0.05),
    # room for 32 steps: compiles faster than 64
    "adaptive": Method(
        diffrax.Bosh3(),
        controller=diffrax.PIDController(rtol=3e-5, atol=3e-5),
        max_steps=32,
    ),
}
_AT = jnp.array([2.0, 0.3, 1.0, -0.2])


@pytest.fixture(scope="module")
def functional(driven):
    """A nonlinear function of four parameters, and the same of the closed form."""

    def simulation(parameters):
        return eqx.tree_at(
            lambda s: (s.k, s.a, s.start),
            driven(),
            (parameters[0], parameters[1], parameters[2:]),
        )

    def of(states):
        return jnp.sum(jnp.sin(states) * jnp.arange(1.0, 5.0).reshape(2, 2))

    def run(parameters, method):
        return of(simulate(simulation(parameters), _TIMES, method, throw=False).states)

    def exact(parameters):
        return of(jax.vmap(simulation(parameters).exact)(jnp.asarray(_TIMES)))

    return run, exact


def every_mode(function, nestings):
    """The gradient in both modes, and Hessians."""
    return jax.jit(
        lambda p: (
            [mode(function)(p) for mode in (jax.jacfwd, jax.jacrev)],
            [outer(inner(function))(p) for outer, inner in nestings],
        )
    )


_NESTINGS = list(itertools.product((jax.jacfwd, jax.jacrev), repeat=2))


@pytest.mark.parametrize(
    ("name", "nestings"),
    [
        ("symplectic", _NESTINGS[1:3]),
        pytest.param("symplectic", _NESTINGS, marks=pytest.mark.slow),
        pytest.param("checkpointed", _NESTINGS, marks=pytest.mark.slow),
        ("explicit", _NESTINGS[2:3]),
        pytest.param("explicit", _NESTINGS, marks=pytest.mark.slow),
        pytest.param("adaptive", _NESTINGS, marks=pytest.mark.slow),
    ],
)
def test_all_modes_agree_with_each_other_and_the_closed_form(
    functional, name, nestings
):
    run, exact = functional
    function = every_mode(lambda p: run(p, _METHODS[name]), nestings)
    gradients, hessians = function(_AT)
    # forward = reverse: the same products summed in another order
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-10, atol=1e-12)
    for hessian in hessians[1:]:
        np.testing.assert_allclose(hessian, hessians[0], rtol=1e-10, atol=1e-11)
    # The runs are off by 1e-4 to 1e-3, and so are their derivatives, which are 1 to 10.
    known = jax.jit(lambda p: (jax.jacfwd(exact)(p), jax.hessian(exact)(p)))(_AT)
    np.testing.assert_allclose(gradients[0], known[0], atol=3e-3)
    np.testing.assert_allclose(hessians[0], known[1], atol=1e-2)


@pytest.mark.parametrize(
    "name", ["symplectic", pytest.param("adaptive", marks=pytest.mark.slow)]
)
def test_gradient_under_vmap_equals_single_gradients(functional, name):
    run, _ = functional
    points = _AT + 0.1 * jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    both = jax.value_and_grad(lambda p: run(p, _METHODS[name]))
    together = jax.jit(jax.vmap(both))(points)
    one = jax.jit(both)
    for i, point in enumerate(points):
        value, gradient = one(point)
        np.testing.assert_allclose(together[0][i], value, rtol=1e-12)
        np.testing.assert_allclose(together[1][i], gradient, rtol=1e-12, atol=1e-13)


def test_unrolled_steps_equal_steps_one_by_one(driven):
    # 5 of these to a turn of the loop: 7 and 23 steps do not divide
    method = Method(Leapfrog(), 0.1)
    rows = simulate(driven(), [0.7, 2.3], method).states
    with jax.disable_jit():
        one_by_one = simulate(driven(), [0.7, 2.3], method).states
    np.testing.assert_allclose(rows, one_by_one, rtol=1e-13)


def gradients(function, method, *arguments):
    """With the past stored, and by stepping backwards."""
    for m in (method, Method(method.solver, method.step, adjoint=Reversible())):
        yield jax.jit(jax.grad(lambda p, m=m: function(p, m, *arguments)))(_AT)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Leapfrog(), Yoshida4()])
def test_reversible_adjoint_has_the_gradient_of_the_stored_run(functional, solver):
    run, _ = functional
    stored, back = gradients(run, Method(solver, 0.1))
    # stepping back repeats the states to rounding
    np.testing.assert_allclose(back, stored, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "times",
    [
        # before and after the epoch, on the grid and off it
        [-1.0, -0.47, 0.6, 1.0],
        # at the epoch only on one side
        [-0.47, 0.0],
    ],
    ids=["both ways", "at the epoch"],
)
def test_reversible_adjoint_is_right_for_any_output_times(driven, times):
    def run(p, method):
        simulation = driven(k=p[0], a=p[1], start=p[2:])
        # of the positions only
        found = simulate(simulation, times, method, observe=lambda t, y: y[0])
        return jnp.sum(jnp.sin(found.states))

    stored, back = gradients(run, Method(Leapfrog(), 0.1))
    np.testing.assert_allclose(back, stored, rtol=1e-12, atol=1e-13)


# 127 and 129 steps: segments of two blocks, one of which is not full.
@pytest.mark.parametrize(
    "times", first_plain([[12.7, 25.6], [0.5, 1.0]]), ids=["in blocks", "few"]
)
def test_terms_may_close_over_the_simulation(driven, times):
    kind = type(driven())

    class Closure(kind):
        def terms(self):
            return Separable(lambda t, v, args: v, lambda t, x, args: -self.k * x)

    def run(p, method):
        states = simulate(Closure(p[0], p[1], p[2:]), times, method).states
        return jnp.sum(jnp.sin(states))

    def told(p, method):
        same = driven(k=p[0], a=0 * p[1], start=p[2:])
        return jnp.sum(jnp.sin(simulate(same, times, method).states))

    method = Method(Leapfrog(), 0.1)
    expected = next(gradients(told, method))
    for found in gradients(run, method):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.hessian])
def test_reversible_adjoint_has_no_forward_mode(functional, mode):
    run, _ = functional
    method = Method(Leapfrog(), 0.1, adjoint=Reversible())
    with pytest.raises(ValueError, match=r"reverse mode only, .* leave adjoint=None"):
        mode(lambda p: run(p, method))(_AT)


@pytest.mark.parametrize(
    ("adjoint", "mode", "step"),
    first_plain(
        [
            (diffrax.ForwardMode(), jax.jacfwd, None),
            (diffrax.RecursiveCheckpointAdjoint(), jax.jacrev, 0.05),
            (diffrax.RecursiveCheckpointAdjoint(), jax.jacrev, None),
        ]
    ),
    ids=["forward", "reverse at fixed steps", "reverse"],
)
def test_diffrax_adjoints_are_right_in_their_mode(functional, adjoint, mode, step):
    run, exact = functional
    method = Method(diffrax.Bosh3(), step, adjoint=adjoint, max_steps=256)
    found = jax.jit(mode(lambda p: run(p, method)))(_AT)
    np.testing.assert_allclose(found, jax.jacfwd(exact)(_AT), atol=1e-3)
