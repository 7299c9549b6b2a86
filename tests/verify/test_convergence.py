"""Observed orders are the orders of the methods."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

from diffsim.integrators import Leapfrog, Yoshida4
from diffsim.simulations import AbstractSimulation, Method, Separable, simulate
from diffsim.verify import convergence


class _Oscillator(AbstractSimulation):
    """x'' = -rate**2 x from x = 1 at rest: x = cos(rate t)."""

    rate: jax.Array
    t0: float = 0.0

    def initial_state(self):
        return jnp.ones(()), jnp.zeros(())

    def terms(self):
        return Separable(lambda t, v, a: v, lambda t, x, a: -(a.rate**2) * x)

    def default_method(self):
        return Method(Leapfrog(), step=0.05)


_STEPS = (0.1, 0.05, 0.025, 0.0125)
_RATE, _TIMES = 1.3, np.asarray([1.0, 2.0])


def _run(solver):
    simulation = _Oscillator(jnp.asarray(_RATE))
    return lambda step: simulate(simulation, _TIMES, Method(solver, step=step))


def _exact():
    return np.cos(_RATE * _TIMES), -_RATE * np.sin(_RATE * _TIMES)


# Orders as published with each method. At these steps the next order in h moves the
# slope by at most 0.03 (Heun), measured; 0.1 is the project's bar for orders.
@pytest.mark.parametrize(
    ("solver", "order"),
    first_plain(
        [(diffrax.Euler(), 1), (Yoshida4(), 4), (diffrax.Heun(), 2), (Leapfrog(), 2)], 2
    ),
    ids=["Euler", "Yoshida4", "Heun", "Leapfrog"],
)
def test_observed_order_is_the_published_one(solver, order):
    steps = tuple(h / 4 for h in _STEPS) if order == 1 else _STEPS
    run = _run(solver)
    assert convergence(run, steps, exact=_exact()).order == pytest.approx(
        order, abs=0.1
    )
    assert convergence(run, steps).order == pytest.approx(order, abs=0.1)


def test_errors_at_machine_precision_are_left_out():
    def run(step):
        return 1 + step**4 * jnp.ones(3)

    found = convergence(run, [0.1, 0.05, 0.025, 1e-4, 1e-5], exact=jnp.ones(3))
    assert found.order == pytest.approx(4, abs=1e-6)
    assert np.isnan(found.orders[-1])


def test_wrong_limit_has_no_order_against_the_exact_answer():
    def run(step):
        return 1.1 + step**2 * jnp.ones(3)

    assert convergence(run, [0.1, 0.05, 0.025], exact=jnp.ones(3)).order < 0.1
    # what measuring without an exact answer cannot see, as the docstring warns
    assert convergence(run, [0.1, 0.05, 0.025]).order == pytest.approx(2, abs=1e-6)


def test_order_is_that_of_the_worst_array():
    def run(step):
        return {"second": 1 + step**2, "first": 1e6 * (1 + step)}

    found = convergence(run, [0.1, 0.05, 0.025], exact={"second": 1.0, "first": 1e6})
    assert found.order == pytest.approx(1, abs=1e-6)
    assert found.errors == pytest.approx([0.1, 0.05, 0.025])


def test_errors_all_at_machine_precision_have_no_order():
    assert np.isnan(
        convergence(lambda h: jnp.ones(2), [0.1, 0.05], exact=jnp.ones(2)).order
    )


def test_table_has_one_line_per_step():
    found = convergence(lambda h: 1 + jnp.asarray(h), [0.1, 0.05], exact=1.0)
    assert len(str(found).splitlines()) == 4
    assert str(found).endswith("order 1.000")


@pytest.mark.parametrize(
    ("steps", "exact", "message"),
    [
        ([0.1], 1.0, "at least 2"),
        ([0.1, -0.1], 1.0, "positive"),
        ([0.1, 0.05], None, "at least 3"),
        ([0.1, 0.05, 0.01], None, "geometric"),
        ([0.1, 0.05], [1.0, 1.0], "shapes"),
    ],
)
def test_invalid_arguments_raise_value_error(steps, exact, message):
    with pytest.raises(ValueError, match=message):
        convergence(lambda h: 1 + jnp.asarray(h), steps, exact=exact)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("exact", [None, np.ones(3)])
@pytest.mark.parametrize("step", [0.1, 0.025])
def test_nonfinite_run_raises_value_error(bad, exact, step):
    def run(h):
        return jnp.where(np.isclose(h, step), bad, 1 + h**2) * jnp.ones(3)

    with pytest.raises(ValueError, match=rf"run\({step}\) must be finite.*3 that"):
        convergence(run, [0.1, 0.05, 0.025], exact=exact)


def test_nonfinite_exact_answer_raises_value_error():
    with pytest.raises(ValueError, match="exact must be finite"):
        convergence(lambda h: 1 + jnp.asarray(h), [0.1, 0.05], exact=np.nan)
    with pytest.raises(ValueError, match=r"run\(0.1\) must be finite.*none"):
        convergence(lambda h: 3, [0.1, 0.05], exact=1.0)
