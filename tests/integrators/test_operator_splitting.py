"""Compositions of exact sub-flows: order, symmetry, derivatives."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim.integrators import KahanLi6, Leapfrog, SymmetricComposition, Yoshida4
from diffsim.simulations import Reversible, Separable, SplitFlows
from diffsim.verify import check_simulation


class Duffing(ds.AbstractSimulation):
    """q' = ω p, p' = −ω q − b q³ cos t: a rotation, and kicks that change with time."""

    omega: jax.Array
    b: jax.Array
    start: jax.Array
    hidden: bool = eqx.field(static=True, default=False)
    t0: float = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        def turned(t, y, length, args):
            omega = self.omega if self.hidden else args.omega
            c, s = jnp.cos(omega * length), jnp.sin(omega * length)
            q, p = y
            return jnp.stack([c * q + s * p, c * p - s * q])

        def kicked(t, y, length, args):
            q, p = y
            return jnp.stack([q, p - length * args.b * jnp.cos(t) * q**3])

        return SplitFlows(kicked, turned)

    def default_method(self):
        return ds.Method(diffrax.Dopri8())


def duffing(b=0.4, *, hidden=False):
    given = (jnp.asarray(x) for x in (1.3, b, [1.0, 0.2]))
    return Duffing(*given, hidden)


def exact(run, t):
    return ds.simulate(run, t, ds.Method(diffrax.Dopri8(), 0.01)).states


@pytest.mark.parametrize(
    ("solver", "order"),
    first_plain([(Yoshida4(), 4), (Leapfrog(), 2), (KahanLi6(), 6)]),
)
def test_errors_fall_at_the_order(solver, order):
    def end(b, step):
        return ds.simulate(duffing(b), 2.0, ds.Method(solver, step)).states

    both = jax.jvp(lambda b: exact(duffing(b), 2.0), (0.4,), (1.0,))
    errors = [
        [jnp.linalg.norm(a - b) for a, b in zip(found, both, strict=True)]
        for found in (
            jax.jvp(lambda b, h=h: end(b, h), (0.4,), (1.0,)) for h in (0.2, 0.1)
        )
    ]
    np.testing.assert_allclose(np.log2(np.divide(*errors)), order, atol=0.25)


def test_leapfrog_of_a_time_dependent_drift_is_of_order_two():
    """x' = v cos t, v' = −x: drifts see the clock as well as kicks."""

    class Driven(type(duffing())):
        def terms(self):
            return Separable(lambda t, v, args: v * jnp.cos(t), lambda t, x, args: -x)

        def initial_state(self):
            return self.start[0], self.start[1]

    run = Driven(*jax.tree.leaves(duffing()))
    method = [ds.Method(Leapfrog(), h) for h in (0.1, 0.05)]
    best = np.stack(exact(run, 2.0))
    errors = [
        np.linalg.norm(np.stack(ds.simulate(run, 2.0, m).states) - best) for m in method
    ]
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2, atol=0.1)


def test_vector_field_is_the_sum_of_those_of_the_flows():
    run, y, t = duffing(), jnp.array([0.7, -0.3]), 0.9
    q, p = y
    expected = [1.3 * p, -1.3 * q - 0.4 * q**3 * np.cos(t)]
    np.testing.assert_allclose(run.terms().vf(t, y, run), expected, rtol=1e-14)


@pytest.mark.parametrize("sign", first_plain([-1, 1]))
def test_diffrax_takes_the_same_steps(sign):
    run, times = duffing(), sign * np.array([0.5, 1.0])
    theirs = diffrax.diffeqsolve(
        run.terms(),
        Yoshida4(),
        0.0,
        times[-1],
        sign * 0.125,
        run.initial_state(),
        run,
        saveat=diffrax.SaveAt(ts=jnp.asarray(times)),
    ).ys
    ours = ds.simulate(run, np.sort(times), ds.Method(Yoshida4(), 0.125)).states
    np.testing.assert_allclose(ours[::sign], theirs, rtol=1e-14)


@pytest.mark.parametrize("hidden", first_plain([True, False]))
def test_backward_steps_invert_forward_steps(hidden):
    """So that `Reversible` finds the derivative, of closed-over numbers too."""

    own = SymmetricComposition(Yoshida4().weights)

    def end(run, adjoint):
        method = ds.Method(own, 0.1, adjoint=adjoint)
        return jnp.sum(ds.simulate(run, 1.25, method).states ** 2)

    run = duffing(hidden=hidden)
    found, stored = (
        eqx.filter_jit(eqx.filter_grad(end))(run, adjoint)
        for adjoint in (Reversible(), None)
    )
    for a, b in zip(*map(jax.tree.leaves, (found, stored)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert stored.omega != 0


@pytest.mark.slow
@pytest.mark.usefixtures("one_nesting")
def test_split_flows_satisfy_the_simulation_contract():
    method = ds.Method(Yoshida4(), 0.1)
    check_simulation(duffing(), [0.13, 0.4], method).raise_if_failed()
