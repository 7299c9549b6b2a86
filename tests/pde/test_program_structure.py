"""Structure of compiled programs: what gradients store, what is compiled."""

import re

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde


PLATE = pde.Grid((24, 32), 0.0, (1.0, 1.4))
WALLS = (pde.Dirichlet(0.3), pde.Neumann(0.2)), pde.Robin(1.0, 0.4, 0.1)
#: Fields of a basis of GMRES, the largest that iterations keep.
BASIS = 61


def shapes(jaxpr):
    """Of every array in it, whatever it is nested in."""
    for equation in jaxpr.eqns:
        yield from (v.aval.shape for v in equation.outvars)
        for value in jax.tree.leaves(
            equation.params, is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from shapes(inner)


def of_gradient(function, given):
    """Entries of the largest array in the value and the gradient of a sum."""

    dynamic, static = eqx.partition(given, eqx.is_array)

    def total(dynamic):
        found = function(eqx.combine(dynamic, static))
        return sum(jnp.sum(a**2) for a in jax.tree.leaves(found))

    found = jax.make_jaxpr(jax.value_and_grad(total))(dynamic)
    return max(int(np.prod(shape)) for shape in shapes(found.jaxpr))


@pytest.mark.parametrize(
    "solver",
    [
        pde.FastDiagonalization(),
        pde.PreconditionedKrylov(),
        pde.PreconditionedKrylov(pde.Multigrid()),
    ],
)
def test_elliptic_problems_build_no_dense_matrix(solver):
    x, y = PLATE.centers
    domain = pde.Domain(PLATE, WALLS)
    uniform = isinstance(solver, pde.FastDiagonalization)
    k = jnp.asarray(1.3) if uniform else 1 + x * y
    largest = of_gradient(
        lambda k: pde.poisson(x, domain, coefficient=k, solver=solver, throw=False), k
    )
    # Fields, framed; of multigrid, the matrix of the 48 cells of its coarsest.
    assert largest <= 4 * 24 * 32


def heat():
    law = pde.Diffusion(0.1 + 0.05 * PLATE.centers[0])
    return pde.Evolution(law, PLATE.centers[1], PLATE, WALLS)


def melting():
    law = pde.Diffusion(lambda t, x, u: 0.1 + u**2)
    return pde.Evolution(law, PLATE.centers[1], PLATE, WALLS)


def fronts():
    return pde.Evolution(pde.FisherKPP(0.1, 0.9), PLATE.centers[1], PLATE, WALLS)


def waves():
    return pde.Evolution(pde.NavierStokesVorticity(0.01), PLATE.centers[0], PLATE)


def cavity():
    walls = (pde.NoSlip(), (pde.NoSlip(), pde.NoSlip((1.0, 0.0))))
    body = pde.Obstacle(pde.Ball((0.5, 0.4), 0.3))
    return pde.IncompressibleFlow(0.1, PLATE, walls, obstacle=body)


@pytest.mark.parametrize(
    ("system", "solver"),
    first_plain(
        [
            (melting, integrators.KenCarp4()),
            (waves, integrators.ETDRK4()),
            (heat, integrators.Kvaerno3()),
            (heat, integrators.CrankNicolson()),
            (melting, integrators.Kvaerno3()),
            (fronts, integrators.KenCarp5()),
            (fronts, integrators.ARS443()),
            (cavity, integrators.KenCarp4()),
        ],
        2,
    ),
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
def test_implicit_steps_build_no_dense_matrix(system, solver):
    method = ds.Method(solver, step=0.01)
    largest = of_gradient(
        lambda made: ds.simulate(made, 0.02, method, throw=False).states, system()
    )
    assert largest <= 2 * BASIS * 24 * 32


def smoke():
    law = pde.AdvectionDiffusion(0.01, jnp.array([1.0, 0.5]))
    return pde.Evolution(law, PLATE.centers[1], PLATE, WALLS)


def flame():
    line = pde.Grid(512, 0.0, 100.0)
    start = jnp.sin(line.centers[0] / 5)
    return pde.Evolution(pde.KuramotoSivashinsky(), start, line)


@pytest.mark.parametrize(
    ("system", "solver"),
    first_plain(
        [
            (smoke, diffrax.Euler()),
            (smoke, integrators.SSPRK3()),
            (flame, integrators.ETDRK4()),
        ]
    ),
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
def test_gradients_store_only_states_at_step_starts(system, solver):
    """Of a step a scheme makes fifty times what a state is."""
    made, method = system(), ds.Method(solver, step=0.001)
    dynamic, static = eqx.partition(made, eqx.is_inexact_array)

    def memory(steps):
        def total(dynamic):
            run = eqx.combine(dynamic, static)
            found = ds.simulate(run, steps * 0.001, method, throw=False)
            return jnp.sum(found.states**2)

        program = jax.jit(jax.grad(total)).lower(dynamic).compile()
        return program.memory_analysis().temp_size_in_bytes

    # As many again, and then each has taken what it takes.
    more = (memory(60) - memory(30)) / 30
    assert more <= 1.5 * made.initial.nbytes


@pytest.mark.parametrize(
    ("solver", "stages"),
    first_plain([(integrators.ETDRK2(), 2), (integrators.ETDRK4(), 4)]),
)
def test_spectral_steps_transform_only_the_nonlinear_part(solver, stages):
    """There and back at each stage; the state itself only at outputs."""
    made, method = flame(), ds.Method(solver, 0.1)
    run = jax.jit(lambda: ds.simulate(made, [2.0, 4.0], method, throw=False).states)
    program = run.lower().compile().as_text()
    loops = set(re.findall(r"body=(%[\w.-]+)", program))
    parts = [p for p in program.split("\n\n") if p.split(" ", 1)[0] in loops]
    assert sorted(p.count(" fft(") for p in parts)[-2:] == [1, 2 * stages]


@pytest.mark.slow
def test_steady_states_build_no_dense_matrix():
    def comes_to(made):
        return pde.steady_state(made, throw=False)

    for system in (melting, cavity):
        assert of_gradient(comes_to, system()) <= 2 * BASIS * 25 * 33


def rod(value, corner=1.0, k=0.1):
    walls = ((pde.Dirichlet(value), pde.Robin(1.0, 0.4, value)),)
    grid = pde.Grid(8, 0.0, corner)
    return pde.Evolution(pde.Diffusion(k), jnp.ones(8), grid, walls)


def tube(value, corner=1.0, k=1.4):
    gas = pde.Euler(k)
    start = gas.state(1.0, jnp.zeros((1, 8)), 1.0)
    upstream = pde.Inflow(jnp.stack([1.0, value, 1.0]))
    ends = ((upstream, pde.Outflow()),)
    return pde.Evolution(gas, start, pde.Grid(8, 0.0, corner), ends)


def lid(value, corner=1.0, k=0.1):
    walls = (pde.NoSlip(), (pde.NoSlip(), pde.NoSlip(jnp.stack([value, 0.0]))))
    return pde.IncompressibleFlow(k, pde.Grid((4, 4), 0.0, corner), walls)


@pytest.mark.parametrize("system", first_plain([rod, lid, tube]))
def test_changed_boundary_value_does_not_recompile(system, compilations):
    """Nor do other extents and coefficients: they are not built into the program."""
    method = ds.Method(diffrax.Heun(), step=1e-3)

    def end(*given):
        made = system(*map(jnp.asarray, given))
        return jax.device_get(ds.simulate(made, 2e-3, method).states)

    first = jax.tree.leaves(end(0.2))
    before = compilations()
    for given in ((0.3,), (0.2, 1.1), (0.2, 1.0, 1.2)):
        other = jax.tree.leaves(end(*given))
        assert any(np.any(a != b) for a, b in zip(first, other, strict=True))
    assert compilations() == before > 0
