"""What is wrong in a call of `integrators` is said in one sentence."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from sentences import of, pairs, raises, table

import diffsim as ds
from diffsim import problems
from diffsim.integrators import (
    ARS222,
    ARS443,
    ETDRK4,
    CrankNicolson,
    KenCarp4,
    Kvaerno5,
    Leapfrog,
    SymmetricComposition,
)


CONTROLLER = diffrax.PIDController(1e-6, 1e-6)


@table(
    of(
        lambda solver: ds.simulate(problems.kaps(), 1.0, ds.Method(solver, 0.1)),
        (ETDRK4(), "ETDRK4 needs Semilinear dynamics"),
        (ARS443(), "ARS443 needs MultiTerm dynamics"),
        (KenCarp4(), "KenCarp4 needs MultiTerm dynamics"),
        (Leapfrog(), r"Leapfrog needs Separable .* or SplitFlows; got O"),
    ),
    of(
        ds.Method,
        (ARS222(), "ARS222 has no error estimate"),
        (ARS443(), "ARS443 has no error estimate"),
        (CrankNicolson(), "CrankNicolson has no error estimate"),
    ),
    of(
        lambda solver: ds.Method(solver, controller=CONTROLLER),
        (ARS222(), "ARS222 runs at fixed steps only"),
        (ARS443(), "ARS443 runs at fixed steps only"),
        (CrankNicolson(), "CrankNicolson runs at fixed steps only"),
    ),
    of(
        SymmetricComposition,
        ([0.3, 0.6], r"add up to 1, got 0\.9 of 2; .*from_half"),
        ([0.25, 0.5, 0.25], r"cubes that add up to 0, got 0\.156: their order is 2"),
        ([1.3512, -1.7024, 1.3512], "check their digits, 11 at least"),
        ([], r"list of numbers.*got \[\]"),
        ([[1.0]], r"list of numbers.*got \[\[1\.0\]\]"),
        ([np.nan], "list of numbers.*got"),
        ("Suzuki", "known while Python runs, .*got 'Suzuki'"),
    ),
    pairs(
        lambda: SymmetricComposition([0.3, 0.7]),
        r"same backwards, got weights\[0\] = 0\.3 and weights\[-1\] = 0\.7",
        lambda: jax.jit(lambda w: SymmetricComposition(w).weights)(jnp.ones(3)),
        "weights must be known while Python runs",
        lambda: Kvaerno5(iterations=1),
        "iterations must be a whole number from 2",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)
