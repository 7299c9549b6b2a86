"""What is wrong in a call of `pde` is said in one sentence."""

import math
from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from sentences import of, options, pairs, raises, table, warns

import diffsim as ds
from diffsim import implicit, integrators, nbody, pde
from diffsim.pde import Diffusion, Dirichlet, Domain, Evolution, Grid, Neumann, NoSlip


GRID, LINE, PLANE, SHEET, CUBE = map(Grid, (8, 16, (8, 8), (4, 5), (4, 4, 4)))
X, ONE, FLAT = GRID.centers[0], jnp.ones(16), jnp.zeros((4, 5))
WIDE = jnp.ones(17)  # of another grid
HALF = jnp.ones(8, jnp.float16)
STEPS = ds.Method(integrators.SSPRK3(), 0.001)
FOURIER, VOLUMES = pde.Fourier(), pde.FiniteVolume()
NS, KDV = pde.NavierStokesVorticity(0.1), pde.KortewegDeVries()
WAVE, WATER = pde.Wave(1.0), pde.ShallowWater()
GAS = pde.Euler(1.4)
CALM = GAS.state(1.0, jnp.zeros((1, 8)), 1.0)
WALLED, STRIP = Domain(LINE, Dirichlet(0.0)), Domain(SHEET)
SQUARE = Domain(Grid((5, 5)), Neumann())
LED = implicit.Krylov(preconditioner=lambda v: v)
PLATE = Domain(Grid((8, 6)), ((Dirichlet(0.3), Neumann(0.2)), pde.Periodic()))


def heat(equation=None, initial=ONE, grid=LINE, boundary=None, **options):
    equation = Diffusion(0.1) if equation is None else equation
    return Evolution(equation, initial, grid, boundary, **options)


def on_grid(law, initial=X, walls=None):
    return Evolution(law, initial, GRID, walls)


def evolve(equation, fields=1, grid=LINE, boundary=None, **options):
    return heat(equation, jnp.ones((fields, *grid.shape)), grid, boundary, **options)


def ran(*given, **options):
    simulation = evolve(*given, **options)
    steps = isinstance(simulation.equation, pde.Wave | pde.Schrodinger)
    return ds.simulate(simulation, 0.002, None if steps else STEPS)


def fed(source):
    return ran(Diffusion(0.1, source=source))


def walled(boundary):
    return ran(Diffusion(0.1), boundary=boundary)


def flow(walls=None, viscosity=0.1, grid=PLANE, **options):
    return pde.IncompressibleFlow(viscosity, grid, walls or NoSlip(), **options)


def piped(enters):
    return flow(((pde.Inflow(enters), pde.Outflow()), NoSlip()))


def water(walls):
    return on_grid(pde.ShallowWater(1.0), jnp.stack([1 + X, 0 * X]), walls)


def gas(walls):
    return on_grid(GAS, GAS.state(1 + X, 0.0, 1.0), walls)


def switched(t, x):
    return 1.0 if t < 0.5 else 0.0


def written(t, x, u):
    u[0] = 1
    return u


class OneSide(pde.AbstractReconstruction):
    order, width, limited = 1, 1, False

    def reconstruct(self, views):
        return views[0]


class Shifted(OneSide):
    def reconstruct(self, views):
        return views[0][..., 1:], views[1]


class Mute(OneSide):
    def reconstruct(self, views):
        return None


class Flat(pde.AbstractReactionDiffusion):
    """Its reaction has lost the axis of channels."""

    nonlinearity_degree = 1
    diffusivities = (0.1, 0.2)

    def reaction(self, t, x, u):
        return u[0]


JNP, WHERE = "jax.numpy", "jnp.where"


@table(
    {
        "NS, NoSlip": (lambda: evolve(NS, 1, PLANE, NoSlip()), "IncompressibleFlow"),
        "NS, Dirichlet": (
            lambda: evolve(NS, 1, PLANE, Dirichlet()),
            "IncompressibleFlow",
        ),
        "velocity for vorticity": (lambda: evolve(NS, 2, PLANE), "channels vorticity"),
        "one field for a wave": (lambda: evolve(WAVE), "u, u_t"),
        "one function for a wave": (lambda: heat(WAVE, lambda x: x[0]), "u, u_t"),
        "one field for psi": (lambda: evolve(pde.Schrodinger()), "psi_imag"),
        "one field for a gas": (lambda: evolve(GAS), "density, momentum_x, e"),
        "one field for water": (lambda: evolve(WATER), "depth, momentum_x"),
        "length for lower": (lambda: Grid(64, 2 * np.pi), "shape, lower, upper"),
        "pair for lower": (lambda: Grid(64, (0.0, 1.0)), "shape, lower, upper"),
        "points for cells": (lambda: Grid(np.linspace(0, 1, 64)), "positive ints"),
        "a grid of True": (lambda: Grid(True), "shape must be a whole n.*got True"),
        "a grid of (True, 4)": (lambda: Grid((True, 4)), "shape must be a whole n"),
        "class Periodic": (lambda: heat(boundary=pde.Periodic), "Periodic\\(...\\)"),
        "classes of sides": (
            lambda: walled((Dirichlet, Neumann)),
            "Dirichlet\\(...\\)",
        ),
        "class NoSlip": (lambda: flow(NoSlip), "NoSlip\\(...\\)"),
        "name of a boundary": (lambda: heat(boundary="periodic"), "pde.Periodic"),
        "number for a boundary": (lambda: heat(boundary=0.0), "pde.Dirichlet"),
        "half periodic": (lambda: walled((pde.Periodic(), Dirichlet())), "both"),
        "three sides": (lambda: heat(boundary=3 * (Dirichlet(),)), "each of 1 axes"),
        "Dirichlet for a flow": (lambda: flow(Dirichlet()), "pde.NoSlip"),
        "NumPy source": (lambda: fed(lambda t, x, u: np.cos(np.asarray(u))), JNP),
        "math source": (lambda: fed(lambda t, x, u: math.sin(t)), JNP),
        "if in a source": (lambda: fed(lambda t, x, u: switched(t, x)), WHERE),
        "u[u > 0] in a source": (lambda: fed(lambda t, x, u: u[u > 0]), WHERE),
        "math coefficient": (lambda: ran(Diffusion(lambda t, x, u: math.exp(t))), JNP),
        "math at a wall": (lambda: walled(Dirichlet(lambda t, x: math.sin(t))), JNP),
        "if at a wall": (lambda: walled(Neumann(switched)), WHERE),
        "if in a velocity": (lambda: ran(pde.AdvectionDiffusion(0.1, switched)), WHERE),
        "math forcing": (lambda: flow(forcing=lambda t, x: math.sin(t)), JNP),
        "if at an inflow": (lambda: piped(switched), WHERE),
        "NumPy speed": (lambda: ran(pde.Wave(lambda x: np.asarray(x) + 2), 2), JNP),
        "another length": (lambda: heat(initial=WIDE), "\\(1, 16\\)"),
        "complex field": (lambda: heat(initial=1j * ONE), "real"),
        "field of conditions": (lambda: heat(initial=ONE > 0), "real"),
        "initial of (x, y)": (lambda: heat(initial=lambda x, y: x), "lambda x"),
        "NaN field": (lambda: heat(initial=ONE.at[3].set(jnp.nan)), "finite"),
        "NaN flow": (lambda: flow(initial=jnp.full((2, 8, 8), jnp.nan)), "finite"),
        "function of NaN": (lambda: heat(initial=lambda x: jnp.log(x - 0.5)), "finite"),
        "source of another length": (lambda: fed(lambda t, x, u: WIDE), "source must"),
        "source of x": (lambda: Diffusion(0.1, source=lambda x: x), "t, x, u"),
        "wall of x": (lambda: Dirichlet(lambda x: x), "t, x"),
        "array of steps": (
            lambda: ds.Method(integrators.SSPRK3(), ONE),
            "Python number",
        ),
        "poisson on a grid": (lambda: pde.poisson(ONE, LINE), "pde.Domain"),
        "poisson of another length": (lambda: pde.poisson(WIDE, WALLED), "shape"),
        "class of an equation": (lambda: heat(Diffusion), "the class Diffusion"),
        "swapped": (lambda: Evolution(ONE, Diffusion(0.1), LINE), "equation"),
        "epoch of text": (lambda: heat(t0="now"), "t0"),
        "no epoch": (lambda: heat(t0=None), "t0"),
        "two epochs": (lambda: heat(t0=jnp.zeros(2)), "t0"),
    },
    [
        (partial(run, found), f"{name} must return real")
        for name, run in (
            ("the diffusivity of a channel", lambda f: ran(Diffusion(lambda *_: f))),
            ("source", lambda f: ran(pde.Burgers(source=lambda *_: f))),
            ("potential", lambda f: ran(pde.Schrodinger(lambda t, x: f), 2)),
            ("speed", lambda f: ran(pde.Wave(lambda x: f), 2)),
            ("value of a boundary", lambda f: walled(Dirichlet(lambda t, x: f))),
            ("velocity of Inflow at axis 0", lambda f: piped(lambda t, x: f)),
            ("forcing", lambda f: flow(forcing=lambda t, x: f)),
        )
        for found in (None, "hot", 1j)
    ],
    [
        (partial(ran, law, channels), rf"{name} must be .* axes, \(16,\), got")
        for name, channels, law in (
            ("diffusivity", 1, pde.AdvectionDiffusion(WIDE, 1.0)),
            ("viscosity", 1, pde.Burgers(WIDE)),
            ("growth_rate", 1, pde.FisherKPP(0.1, WIDE)),
            ("carrying_capacity", 1, pde.FisherKPP(0.1, 1.0, WIDE)),
            ("reaction_rate", 1, pde.AllenCahn(0.1, WIDE)),
            ("feed", 2, pde.GrayScott(WIDE, 0.1)),
            ("kill", 2, pde.GrayScott(0.1, WIDE)),
            ("potential", 2, pde.Schrodinger(WIDE)),
            ("bottom", 2, pde.ShallowWater(9.8, WIDE)),
            ("speed", 2, pde.Wave(WIDE)),
            ("damping", 2, pde.Wave(1.0, WIDE)),
        )
    ],
    [
        (partial(ran, law), "reconstruct must return two arrays, left and")
        for x in (OneSide(), Shifted(), Mute())
        for law in (pde.AdvectionDiffusion(None, 1.0, scheme=x), pde.Burgers(scheme=x))
    ],
    [
        (partial(call, given), name)
        for name, call in (
            ("scheme", lambda x: pde.advection(ONE, 1.0, Domain(LINE), scheme=x)),
            ("scheme", lambda x: pde.AdvectionDiffusion(0.1, 1.0, scheme=x)),
            ("scheme", lambda x: pde.Burgers(scheme=x)),
            ("scheme", lambda x: pde.Euler(scheme=x)),
            ("scheme", lambda x: pde.ShallowWater(scheme=x)),
            ("riemann_solver", lambda x: pde.Burgers(riemann_solver=x)),
            ("riemann_solver", lambda x: pde.Euler(riemann_solver=x)),
            ("riemann_solver", lambda x: pde.ShallowWater(riemann_solver=x)),
            ("grid", Domain),
        )
        for given in ("weno5", pde.WENO5, pde.HLL, Grid)
    ],
    of(
        lambda grid: ran(pde.Schrodinger(lambda t, x: x**2), 2, grid),
        (LINE, "potential must be a number or of the shape"),
        (PLANE, "potential must be a number or of the shape"),
    ),
    of(
        lambda space: ds.simulate(evolve(Flat(), 2, discretization=space), 0.1),
        (VOLUMES, r"reaction of Flat must .* \(2, 16\), one"),
        (FOURIER, r"reaction of Flat must .* \(2, 16\), one"),
    ),
    of(
        lambda shapes: pde.advection(
            jnp.ones((4, 3)), tuple(map(jnp.ones, shapes)), Domain(Grid((4, 3)))
        ),
        ([(4, 3), (4, 3)], r"\(5, 3\), \(4, 4\)\], got shape"),
        ([(4, 4), (5, 3)], r"\(5, 3\), \(4, 4\)\], got shape"),
    ),
    of(
        options(pde.helmholtz, jnp.ones((8, 6)), PLATE, alpha=0.0),
        ({"coefficient": -1.0}, r"coefficient must be positive, got -1\.0"),
        ({"coefficient": np.ones((6, 8))}, r"a field of the grid, shape \(8, 6\), got"),
        ({"alpha": -1.0}, r"alpha must not be negative, got -1\.0"),
        ({"alpha": np.ones(6)}, r"alpha must be a number or a field"),
        ({"solver": "fft"}, "solver must be an object such as pde.Multigrid"),
        (
            {"solver": pde.FastDiagonalization(), "coefficient": np.ones((8, 6))},
            r"take PreconditionedKrylov\(FastDiagonalization\(\)\)",
        ),
    ),
    of(
        lambda walls: flow(walls, grid=SHEET),
        ((NoSlip(),), "boundary must be one for all sides or a tuple"),
        ((NoSlip(), (pde.Periodic(), NoSlip())), "periodic at one side"),
        ((NoSlip(), (pde.Inflow((0.0, 1.0)), NoSlip())), "an Inflow and no Outflow"),
        (NoSlip((1.0, 0.0)), "must be 0 across the wall, got 1.0"),
        (NoSlip(jnp.zeros(3)), "one for each of 2 axes"),
    ),
    of(
        options(flow, grid=SHEET),
        ({"viscosity": -0.1}, "viscosity must not be negative, got -0.1"),
        ({"grid": Grid(5)}, "grid must have two or three axes"),
        ({"forcing": FLAT}, "forcing must be a number"),
        ({"initial": (FLAT, FLAT)}, r"of shapes \(\(3, 5\), \(4, 4\)\)"),
    ),
    of(
        lambda distance: flow(grid=SHEET, obstacle=pde.Obstacle(distance)),
        (lambda x: x, "obstacle must return one number a place"),
        (pde.Ball((3.0, 0.5), 0.2), "lies outside of the domain"),
        (pde.Ball((0.55, 0.55), 1e-3), "is smaller than a cell"),
        (0.1, r"distance must be a function of \(x\)"),
    ),
    of(
        lambda sides: Domain(SHEET, sides),
        ((Neumann(),), "an entry for each of 2 axes"),
        ((Neumann(), (Neumann(), None)), "boundary at the upper side of axis 1 must b"),
        ((Neumann(), (pde.Periodic(), Neumann())), "periodic at one side"),
        ((Neumann(), (Neumann(),) * 3), "each of 2 axes, one for both of its sides"),
    ),
    of(
        lambda given: Grid(*given),
        (((3, 0),), "shape must be a whole number from 1, got 0; cells of an axis"),
        (((2, 2, 2, 2),), "one to three positive ints"),
        (((4, 5), 0.0, (1.0, 2.0, 3.0)), r"upper must be one number or one an axis"),
        ((4, 1.0, 0.0), "upper must lie above lower"),
        ((4, 0.0, np.inf), "lower and upper must be finite"),
    ),
    of(
        lambda given: pde.probe(jnp.ones((2, 5, 5)), *given),
        (([0.1], SQUARE), r"points must have shape \(point, 2\)"),
        (([0.1, 0.2], SQUARE, jnp.zeros(3)), "one for each of the leading axis"),
        (([0.1, -0.2], SQUARE), "points must lie within the domain"),
        (([0.1, 0.2], Domain(Grid((3, 5)))), "a field must have shape"),
    ),
    of(
        lambda solver: ds.simulate(heat(Diffusion(1.0)), 1.0, ds.Method(solver, 1e-3)),
        (integrators.Leapfrog(), "Leapfrog steps waves, .* takes KenCarp5"),
        (
            integrators.ETDRK4(),
            r"ETDRK4 steps .* Fourier space .* Diffusion in FiniteV",
        ),
    ),
    of(
        options(pde.absorbing_layer, GRID, 0.1, 1.0),
        ({"sides": [(1, 0)]}, r"sides must be among \[\(0, 0\), \(0, 1\)\]"),
        ({"sides": [(0, 0), (0, 0)]}, "each of them once"),
        ({"power": -1}, r"power must be positive, got -1\.0"),
    ),
    of(
        options(pde.PseudoTransient),
        ({"step": 0.0}, "step must be positive"),
        ({"rtol": -1.0}, "rtol must be positive, got -1"),
        ({"norm": lambda: 1.0}, r"norm must take \(y\), got a function of"),
    ),
    [
        (lambda: pde.Central(3), "order must be one of"),
        (lambda: pde.MUSCL(lambda a, b: a), "limiter must take"),
        (lambda: pde.Burgers(-0.1), "viscosity must not be negative"),
        (lambda: pde.CahnHilliard(-1.0, 0.1), r"mobility must be positive, got -1\.0"),
        (lambda: pde.CahnHilliard(1.0, 0.0), r"width must be positive, got 0\.0"),
        (lambda: pde.CFL(0.0), "number must be positive"),
        (lambda: pde.CFL(jnp.ones(2)), r"number must be one number, got shape \(2,"),
        (lambda: pde.cfl_time_step(evolve(WAVE, 2), -1.0), "number must be positive"),
        (lambda: Diffusion(-0.1), r"diffusivity must be positive, got -0\.1"),
        (lambda: pde.Wave(1.0, -0.1), "damping must not be negative, got -0.1"),
        (lambda: pde.Wave(0.0), r"speed must be positive, got 0\.0"),
        (lambda: pde.Euler(1.0), r"gamma - 1 must be positive"),
        (lambda: pde.ShallowWater(0.0), "gravity must be positive"),
        (lambda: pde.Schrodinger(mass=-1.0), r"mass must be positive, got -1\.0"),
        (lambda: pde.Fourier(degree=0), "degree must be a whole number from 1"),
        (lambda: pde.Ball((0.0, 0.0), -1.0), "radius must be positive"),
        (lambda: pde.FourierBasis(GRID, (5,)), r"max_mode must be .* got \(5,\)"),
        (lambda: pde.Wave(lambda t, x: 1.0), "speed must take"),
        (lambda: Diffusion(0.1, lambda t, x: 0 * t), "source must take"),
        (lambda: pde.AdvectionDiffusion(None, lambda x: x), "velocity must take"),
        (lambda: evolve(GAS, 4, GRID), r"initial must have shape \(3, 8\)"),
        (lambda: evolve(WATER, 3, GRID), r"initial must have shape \(2, 8\)"),
        (lambda: on_grid(WAVE), r"initial must have shape \(2, 8\)"),
        (lambda: on_grid(pde.Schrodinger()), r"initial must have shape \(2, 8\)"),
        (lambda: evolve(WATER, 4, CUBE), "grids of 1 or 2 axes"),
        (lambda: pde.Multigrid(smoothing_steps=0), "smoothing_steps must be a whole n"),
        (lambda: pde.integral(jnp.ones((5, 4)), SHEET), "a field must have shape"),
        (lambda: pde.spectrum(jnp.ones((5, 4)), SHEET), "a field must have shape"),
        (lambda: Dirichlet(jnp.nan), "value of a boundary must be finite"),
        (lambda: pde.Inflow((1.0, np.inf)), "value of a boundary must be finite"),
    ],
    pairs(
        lambda: pde.PseudoTransient(linear_solver=implicit.Dense()),
        r"linear_solver must be an object such as implicit.Krylov",
        lambda: flow((NoSlip(), (NoSlip(), None)), grid=SHEET),
        "boundary at the upper side of axis 1 must be an object such as pde.NoSlip",
        lambda: pde.poisson(
            jnp.ones((8, 6)), PLATE, solver=pde.TridiagonalElimination()
        ),
        "along one axis, of at least 3 cells if that is periodic",
        lambda: pde.advection(jnp.zeros((8, 9)), jnp.ones(3), Domain(Grid((8, 9)))),
        r"velocity must .* got shape \(3,\)",
        lambda: pde.advection(
            jnp.zeros((2, 9)), 1.0, Domain(Grid((2, 9))), scheme=pde.WENO5()
        ),
        "at least 4 cells along each axis",
        lambda: pde.Euler(scheme=pde.WENO5),
        r"scheme must be an object such as pde\.MUSCL\(\), got the class WENO5; "
        r"WENO5\(\.\.\.\) makes one",
        lambda: pde.divergence(jnp.zeros((3, 4, 5)), STRIP),
        "one component an axis",
        lambda: pde.curl(jnp.zeros((1, 8)), Domain(GRID)),
        "curl needs two or three dimensions",
        lambda: heat(pde.AdvectionDiffusion(0.1, jnp.ones(3)), FLAT, SHEET),
        "velocity must be a number",
        lambda: ran(pde.AdvectionDiffusion(0.1, lambda t, x: WIDE)),
        r"velocity must be .* got shape \(17,\)",
        lambda: pde.AdvectionDiffusion(-0.1, 1.0),
        "diffusivity must not be negative",
        lambda: heat(Diffusion),
        r"equation must be .* pde.Diffusion\(0.1\)",
        lambda: heat(initial=jnp.zeros((2, 4, 5)), grid=SHEET),
        r"initial must have shape \(1, 4, 5\)",
        lambda: heat(initial=FLAT, grid=SHEET, boundary=Dirichlet(jnp.zeros(5))),
        r"side of axis 0 must be a number, one for",
        lambda: heat(Diffusion(1.0, source=jnp.ones(5)), FLAT, SHEET),
        r"source must .* last axes, \(4, 5\), got",
        lambda: heat(Diffusion(jnp.ones((1, 4, 5))), FLAT, SHEET),
        r"diffusivity must be .* \(4, 5\), got",
        lambda: pde.cfl_time_step(evolve(pde.CahnHilliard(1.0, 0.5))),
        "CahnHilliard defines no courant_rate",
        lambda: ds.simulate(
            evolve(pde.CahnHilliard(1.0, 0.5)),
            0.1,
            ds.Method(diffrax.Heun(), controller=pde.CFL()),
        ),
        "CahnHilliard defines no courant_rate",
        lambda: pde.helmholtz(jnp.ones((6, 8)), PLATE, alpha=0.0),
        r"a field must have shape .* got \(6, 8\)",
        lambda: pde.poisson(
            np.ones((70, 70)),
            Domain(Grid((70, 70)), Dirichlet()),
            solver=pde.Multigrid(),
        ),
        r"down to \(35, 35\), which has more than 1024",
        lambda: pde.PreconditionedKrylov(pde.PreconditionedKrylov()),
        "preconditioner must be an object such as pde.Fast",
        lambda: pde.PreconditionedKrylov(krylov=LED),
        "preconditioner of its own",
        lambda: on_grid(GAS, CALM.at[0, 3].set(-1.0)),
        r"initial density must be positive, got -1\.0",
        lambda: on_grid(GAS, CALM.at[2].set(-1.0)),
        "initial pressure must be positive",
        lambda: GAS.state(1.0, jnp.zeros(8), 1.0),
        r"velocity must have shape \(axis, \*grid\)",
        lambda: GAS.fields(jnp.stack([CALM] * 5)),
        r"u must be one state, .* shape \(5, 3, 8\)",
        lambda: ran(pde.Euler(1.4, scheme=pde.WENO5()), 3, Grid(3)),
        "grid must have at least 4 cells",
        lambda: evolve(pde.NavierStokesVelocity(0.1), 1, PLANE),
        "velocity_x, velocity_y",
        lambda: pde.energy(heat(), ONE[None]),
        "KortewegDeVries, Euler, ShallowWater .* got Evolution of Diffusion",
        lambda: pde.enstrophy(heat(), ONE[None]),
        "got Evolution of Diffusion",
        lambda: pde.energy(evolve(NS, 1, SHEET), jnp.ones((2, 4, 5))),
        r"shape \(\.\.\., 1, 4, 5\)",
        lambda: pde.laplacian(jnp.zeros((5, 4)), STRIP),
        r"field must have shape .* got \(5, 4\)",
        lambda: pde.laplacian(FLAT, STRIP, order=3),
        "order must be one of",
        lambda: pde.laplacian(FLAT, SHEET),
        r"domain must be an object such as pde.Domain\(grid, bound",
        lambda: pde.laplacian(
            jnp.zeros((2, 8)), Domain(Grid((2, 8)), Neumann()), order=4
        ),
        "at least 3 cells along each axis",
        lambda: pde.Robin(0.0, 0.0, 1.0),
        "alpha and beta must not both be 0",
        lambda: pde.Robin([1.0, 2.0], 1.0),
        r"alpha must be one number, got shape \(2,",
        lambda: pde.probe(jnp.ones((2, 5, 5)), [0.1, 0.2], SQUARE, order=3),
        "order must be one of",
        lambda: heat(pde.FisherKPP(lambda t, x, u: u, 1.0), discretization=FOURIER),
        "diffusivities that are numbers, got a func",
        lambda: evolve(pde.Schrodinger(), 2, boundary=Dirichlet()),
        "Schrodinger in Fourier space is periodic",
        lambda: evolve(KDV, boundary=Dirichlet()),
        "KortewegDeVries in Fourier space is periodi",
        lambda: evolve(KDV, discretization=VOLUMES),
        "KortewegDeVries has no finite volume form",
        lambda: evolve(WATER, 2, discretization=FOURIER),
        "ShallowWater has no form in Fourier space",
        lambda: evolve(WAVE, 2, discretization=FOURIER),
        "Wave has no form in Fourier space",
        lambda: heat(pde.NavierStokesVelocity(1.0)),
        "NavierStokesVelocity has two or three dim",
        lambda: evolve(NS, 1, CUBE),
        "NavierStokesVorticity has two dimensions",
        lambda: evolve(pde.KuramotoSivashinsky(), 1, PLANE),
        "KuramotoSivashinsky with potential=False has",
        lambda: pde.KuramotoSivashinsky(fourth_order_coefficient=-1.0),
        r"fourth_order_coefficient must not be negative, got -1\.0",
        lambda: pde.NavierStokesVorticity(-1.0),
        r"viscosity must be positive, got -1\.0",
        lambda: on_grid(WATER, jnp.full((2, 8), -0.5)),
        r"initial depth must not be negative, got -0\.5",
        lambda: pde.flux_divergence(WATER, jnp.ones((2, 8)), Domain(GRID)),
        r"bottom on faces, .* take its rate\(t, u",
        lambda: Diffusion(0.1, lambda t, x, u: jnp.stack([u, u])).rate(
            0.0, ONE[None], Domain(LINE)
        ),
        "source must be a number, or of shape",
        lambda: ds.simulate(
            heat(discretization=FOURIER), 1.0, ds.Method(integrators.Yoshida4(), 1e-3)
        ),
        "Yoshida4 steps waves, .* in Fourier",
        lambda: ds.simulate(heat(), 0.1, observe=lambda y: y),
        r"observe must take \(t, y\), got a function",
        lambda: pde.steady_state(evolve(WAVE, 2)),
        "Wave must be in finite volumes for a steady state, as an Abs",
        lambda: pde.steady_state(heat(discretization=FOURIER)),
        "must be in finite volumes for a steady .*, got discretization=Fourier",
        lambda: pde.steady_state(flow(viscosity=0.0)),
        "viscosity of a steady flow must be positive, got 0",
        lambda: pde.steady_state(
            nbody.NBody(nbody.Bodies([1.0], FLAT[:1, :3], FLAT[:1, :3]))
        ),
        "simulation must be an object such as pde.Evolution",
        lambda: pde.steady_state(heat(), observe=lambda u: u),
        r"observe must take \(t, y\)",
        lambda: pde.steady_state(heat(), solver=0.1),
        "solver must be an object such as pde.PseudoTransient.*, got 0.1",
        lambda: pde.steady_state(
            heat(), solver=implicit.NewtonKrylov(linear_solver=LED)
        ),
        "has a preconditioner of its own",
        lambda: on_grid(Diffusion(1.0), lambda x: math.sin(x[0])),
        "initial makes a Python number .* jnp.sin for math.sin",
        lambda: on_grid(Diffusion(1.0), lambda x: 1 if x[0] > 0 else x[0]),
        "initial decides by a value .* jnp.where",
        lambda: on_grid(Diffusion(1.0), HALF),
        "initial must be float32 or float64, got float16",
        lambda: on_grid(pde.Burgers(), HALF.astype(jnp.bfloat16)),
        "initial must be float32 or float64, got bfloat16",
        lambda: flow(initial=jnp.ones((2, 8, 8), jnp.float16)),
        "initial must be float32 or float64, got float16",
        lambda: Grid(8, 0.0, jnp.float16(2)),
        "must be float32 or float64, got float16",
        lambda: flow(initial=lambda x: jnp.log(x - 0.5)),
        "initial must be finite",
        lambda: flow(initial=jax.tree_util.Partial(jnp.add, jnp.nan)),
        "initial must be finite",
        lambda: on_grid(
            Diffusion(1.0), X, (Neumann(), Dirichlet(lambda t, x: jnp.log(-1.0 - t)))
        ),
        r"value at the upper side of axis 0 must be finite, .* at t = 0",
        lambda: gas(Dirichlet(0.0)),
        "density of the value at the lower side of axis 0 must be positive, got 0.0",
        lambda: gas((pde.ReflectingWall(), pde.Inflow((1.0, 0.0, -1.0)))),
        "pressure of the value at the upper side of axis 0 must be positive, got -1.0",
        lambda: gas(
            (pde.ReflectingWall(), pde.Inflow(lambda t, x: jnp.full((3, 1), t)))
        ),
        "density of the value at the upper side of axis 0 must be positive, got 0.0",
        lambda: water((pde.Inflow((0.0, 1.0)), pde.Outflow())),
        "depth of the value at the lower side of axis 0 must be positive",
        lambda: on_grid(Diffusion([1.0, 2.0])),
        r"diffusivity must be a number or have the grid .* got shape \(2,\)",
        lambda: on_grid(Diffusion(jnp.ones((1, 8)))),
        r"diffusivity must be a number or have the grid .* got shape \(1, 8\)",
        lambda: evolve(pde.Wave(jnp.ones(5)), 2),
        r"speed must be .* got shape \(5,\)",
        lambda: evolve(pde.Burgers(source=jnp.ones(3))),
        r"source must be .* got shape \(3,\); before those axes there are 1 ch",
        lambda: evolve(pde.GrayScott(0.1, 0.1, (1.0, jnp.ones(3))), 2),
        r"diffusivities must be .* got shape \(3,\)",
        lambda: on_grid(pde.Euler(source=jnp.ones((2, 8))), CALM),
        r"source must be .* got shape \(2, 8\)",
        lambda: fed(written),
        r"source writes into an array.* u.at\[0\].set",
        lambda: walled(Dirichlet(lambda t, x: written(t, None, x))),
        r"the value of a boundary writes into an array",
    ),
)
def test_mistake_raises_value_error(call, words):
    raises(ValueError, call, words)


def test_unstable_steps_warn():
    method = ds.Method(integrators.SSPRK3(), 0.1)
    warns(lambda: ds.simulate(heat(), 0.1, method), "unstable")


def test_valid_input_is_accepted():
    taken = [
        on_grid(Diffusion(1 + X, jnp.ones((1, 8)))),
        on_grid(Diffusion(jnp.ones((1,)), 1.0)),
        on_grid(pde.Wave(1 + X, 0.0), jnp.zeros((2, 8))),
        gas((pde.Inflow((1.0, 0.0, 1.0)), Neumann(0.0))),
        gas(Dirichlet(lambda t, x: jnp.ones((3, 1)))),
        water((pde.Inflow((1.0, -1.0)), pde.Outflow())),
    ]
    assert [one.initial.shape[-1] for one in taken] == [8] * len(taken)
