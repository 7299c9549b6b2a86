"""Bracketed Newton's method finds roots wherever they lie in their bracket."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim._results import RESULTS
from diffsim.implicit import BracketedNewton, Diagonal, ImplicitAdjoint, root_solution


#: Of z = k (y − root), with k times the bracket up to 3: bent, steep and flat.
BENDS = (
    jnp.sin,
    jnp.expm1,
    lambda z: jnp.expm1(5 * z),
    lambda z: jnp.expm1(-5 * z),
    lambda z: z + z**3,
    lambda z: jnp.arctan(20 * z),
    lambda z: jnp.tanh(5 * z),
    lambda z: jnp.log1p(0.3 * z),
)


@pytest.mark.parametrize("guess", ["middle", "outside"])
def test_roots_beside_an_end_of_their_bracket_are_found(guess):
    """A hundred thousand, as near to it as 1e-16 of its length."""
    rng, n = np.random.default_rng(0), 100_000
    width = 10 ** rng.uniform(-6, 3, n)
    lower = width * rng.choice([-1, 0, 1], n) * 10 ** rng.uniform(-1, 1, n)
    upper = lower + width
    away = width * 10 ** rng.uniform(-16, -1, n)
    exact = np.where(rng.random(n) < 0.5, lower + away, upper - away)
    which, k = rng.integers(len(BENDS), size=n), rng.uniform(0.1, 3, n) / width

    def residual(y, given):
        exact, which, k = given
        z = k * (y - exact)
        kinds = [which == i for i in range(len(BENDS))]
        return jnp.select(kinds, [bend(z) for bend in BENDS])

    @jax.jit
    def found(guess, lower, upper, given):
        solver = BracketedNewton(lower, upper, 14)
        adjoint = ImplicitAdjoint(Diagonal())
        options = {"solver": solver, "adjoint": adjoint, "throw": False}
        solution = root_solution(residual, guess, given, **options)
        return solution.value, solution.status

    start = (lower + upper) / 2 if guess == "middle" else lower - width
    y, status = found(start, lower, upper, (exact, which, k))
    assert status == RESULTS.successful
    size = np.maximum(np.abs(lower), np.abs(upper))
    assert np.max(np.abs(y - exact) / size) < 4e-16
