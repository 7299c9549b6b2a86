"""The six laws, each a function of a case that returns whether it holds and why not."""

import dataclasses
import itertools
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._results import RESULTS
from .._types import PyTree
from ..simulations import AbstractSimulation, Method, Trajectory, simulate
from ._leaves import Leaves, float_outputs, random_directions
from ._taylor import TaylorReport, taylor_test


#: Forward and reverse mode sum the same products in another order: 1e-10 in float64.
_MODES_ULPS = 450_000
#: Central differences with the best step err by eps^(2/3) at a curvature of 1, a few
#: hundred times more along whole leaves: 6e-5 in float64.
_DIFFERENCES = 10
#: Compiled and not, batched and not: the same operations up to fusing, 1e-12.
_SAME_ULPS = 4500
#: Modes of Hessians, the outer one first; the first nesting gives gradients in reverse
#: mode. Tests of this library try fewer where others of the same kind try all.
_NESTINGS = tuple(itertools.product((jax.jacfwd, jax.jacrev), (jax.jacrev, jax.jacfwd)))
#: Outputs of the test of the epoch, in steps: off the grid, where the step that
#: reaches an output is smooth in its length.
_BETWEEN_STEPS = np.array([2.37, 7.61, 12.43])


#: Neighbors differ by this fraction of the largest entry of each leaf.
_APART = 1e-3


@dataclasses.dataclass(frozen=True)
class Case:
    """Test problem: a simulation as the checks need it.

    - `simulation`: with `t0` a Python float; the epoch has a test of its own.
    - `times`: with a time axis.
    - `given`, `method`: the method, and the same with the steps of one run frozen.
    - `trajectory`: that run.
    - `leaves`: the float arrays of the simulation.
    - `eps`: machine epsilon of the states.
    """

    simulation: AbstractSimulation
    times: np.ndarray
    given: Method
    method: Method
    trajectory: Trajectory
    leaves: Leaves
    eps: float
    seed: int

    @classmethod
    def of(cls, simulation, times, method: Method | None, seed: int) -> Self:
        """Run the simulation once; raises where that fails."""
        given = simulation._checked_default_method() if method is None else method
        if eqx.is_array(simulation.t0):
            epoch = float(simulation.t0)
            simulation = eqx.tree_at(lambda s: s.t0, simulation, epoch)
        times = np.atleast_1d(np.asarray(times))
        trajectory = simulate(simulation, times, given)
        return cls(
            simulation,
            times,
            given,
            given.freeze_steps(trajectory),
            trajectory,
            Leaves.of(simulation),
            max(float(jnp.finfo(y.dtype).eps) for y in float_outputs(trajectory)),
            seed,
        )

    def states(self, values: list[Any]) -> list[Array]:
        """Observed states at other values of the leaves; failures are NaN or inf."""
        simulation = self.leaves.rebuild(values)
        return float_outputs(simulate(simulation, self.times, self.method, throw=False))

    def functional(self, values: list[Any]) -> Array:
        """Sums of states and of squares, with weights that differ entry by entry.

        A square alone has no derivative where a state is 0.
        """
        total = jnp.zeros(())
        for y, base in zip(
            self.states(values), float_outputs(self.trajectory), strict=True
        ):
            size = float(np.linalg.norm(np.asarray(base))) or 1.0
            weights = np.linspace(0.5, 1.5, y.size, dtype=y.real.dtype)
            y = y.reshape(-1) / size
            total = total + jnp.sum(weights * (jnp.abs(y) ** 2 + y.real))
            total = total + jnp.sum(weights[::-1] * y.imag)
        return total

    def neighbor(self, number: int) -> list[Array]:
        """Values of the leaves near those of the simulation."""
        moves = self.directions(_APART, number)
        return [
            x + jnp.asarray(d) for x, d in zip(self.leaves.values, moves, strict=True)
        ]

    def directions(self, size: float, number: int) -> list[np.ndarray]:
        """Random changes of all leaves, at most `size` times their largest entry."""
        largest = [float(np.max(np.abs(x), initial=0.0)) for x in self.leaves.values]
        sizes = [size * (x or 1.0) for x in largest]
        return random_directions(self.leaves.values, sizes, self.seed + number)


def largest_difference(values: PyTree, expected: PyTree) -> float:
    """The difference of two trees, relative to each array's largest entry."""
    differences = [0.0]
    for a, b in zip(jax.tree.leaves(values), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        size = float(np.max(np.abs(b), initial=0.0))
        differences.append(float(np.max(np.abs(a - b), initial=0.0)) / (size or 1.0))
    return float(np.max(differences))


class Finding(NamedTuple):
    """Whether a law holds, and what was measured."""

    passed: bool
    detail: str


def live_leaves(case: Case) -> tuple[Finding, TaylorReport]:
    """1. Every float leaf has a gradient, and so have the epoch and the times."""
    taylor = taylor_test(
        lambda simulation: case.states(Leaves.of(simulation).values),
        case.simulation,
        seed=case.seed,
    )
    taylor = TaylorReport((*taylor.leaves, *_epoch_and_times(case).leaves))
    faulty = [x.name for x in taylor.leaves if not x.passed]
    if faulty:
        return Finding(False, f"see {', '.join(faulty)} in .taylor"), taylor
    slopes = [s for leaf in taylor.leaves for s in leaf.slopes.values()]
    slopes = [s for s in slopes if not np.isnan(s)]
    if not slopes:
        return Finding(True, "below rounding"), taylor
    return Finding(True, f"slopes {min(slopes):.3f} to {max(slopes):.3f}"), taylor


def _epoch_and_times(case: Case) -> TaylorReport:
    """At fixed steps: frozen ones cannot follow an epoch that moves."""
    step, epoch = case.given.step, float(case.simulation.t0)
    if step is None or case.given.adaptive:
        ends = np.asarray(case.trajectory.steps)
        grid = np.unique([epoch, *ends[np.isfinite(ends)]])
        step = float(np.median(np.diff(grid)))
    method = Method(case.given.solver, step=step, max_steps=16)
    elapsed = step * _BETWEEN_STEPS
    times = epoch + elapsed if case.times[-1] > epoch else epoch - elapsed[::-1]

    def states(inputs):
        moved = eqx.tree_at(lambda s: s.t0, case.simulation, inputs["t0"])
        return simulate(moved, inputs["times"], method, throw=False)

    inputs = {"t0": jnp.asarray(epoch), "times": jnp.asarray(times)}
    return taylor_test(
        states, inputs, scale={"t0": step, "times": step}, seed=case.seed
    )


def modes_agree(case: Case, disagreement: float) -> Finding:
    """2. jacfwd and jacrev, nested either way, work and agree."""
    moves = [case.directions(1.0, number) for number in (0, 1)]

    def scalar(s):
        lanes = zip(case.leaves.values, *moves, strict=True)
        return case.functional([x + s[0] * u + s[1] * v for x, u, v in lanes])

    origin = jnp.zeros(2, jnp.finfo(moves[0][0].dtype).dtype)

    def program(outer, inner):
        """Hessian and gradient from one program, which is what takes the time."""

        def gradient(s):
            slopes = inner(scalar)(s)
            return slopes, slopes

        return jax.jit(outer(gradient, has_aux=True))

    programs, hessians = [program(*modes) for modes in _NESTINGS], []
    for (outer, inner), hessian_and_gradient in zip(_NESTINGS, programs, strict=True):
        try:
            hessians.append(hessian_and_gradient(origin)[0])
        except Exception as error:  # a user's simulation may raise anything
            name = f"{outer.__name__}({inner.__name__})"
            return Finding(False, f"{name} raises {brief(error)}")
    # All four nestings of a rule that is not differentiated again agree, and are wrong.
    step = case.eps ** (1 / 3)
    expected = jnp.stack(
        [
            (programs[0](origin + move)[1] - programs[0](origin - move)[1]) / (2 * step)
            for move in step * jnp.eye(2, dtype=origin.dtype)
        ]
    )
    error = largest_difference(hessians[0], expected)
    if not error <= _DIFFERENCES * step:
        detail = f"Hessian and differences of gradients differ by {error:.0e}"
        return Finding(False, detail)
    # First derivatives were compared by the Taylor test.
    differences = [largest_difference(x, hessians[0]) for x in hessians[1:]]
    worst = float(np.max([disagreement, *differences]))
    return _compare(worst, _MODES_ULPS * case.eps)


def compiles_once(case: Case) -> Finding:
    """3. A second value of any float leaf compiles nothing new."""
    traces = []

    @eqx.filter_jit
    def run(simulation):
        traces.append(None)
        return float_outputs(simulate(simulation, case.times, case.method, throw=False))

    first, second = case.neighbor(0), case.neighbor(1)
    run(case.leaves.rebuild(first))
    culprits = []
    for i, name in enumerate(case.leaves.names):
        before = len(traces)
        run(case.leaves.rebuild([*first[:i], second[i], *first[i + 1 :]]))
        culprits += [name] if len(traces) > before else []
    # Numbers that are not arrays are compiled in: each value would compile anew.
    for path, leaf in jax.tree_util.tree_flatten_with_path(case.simulation)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        culprits += [name] if isinstance(leaf, float) and name != "t0" else []
    if culprits:
        return Finding(False, f"compiled in: {', '.join(culprits)}; store an array")
    return Finding(True, "one compilation for every value")


def precision_is_kept(case: Case) -> Finding:
    """4. float32 gives float32, float64 gives float64."""
    double = jnp.result_type(float) == jnp.float64
    precisions = [jnp.float32, jnp.float64][: 2 if double else 1]
    for precision in precisions:
        values = [
            x.astype(jnp.result_type(precision, jnp.complex64))
            if jnp.iscomplexobj(x)
            else x.astype(precision)
            for x in case.leaves.values
        ]
        for state in jax.eval_shape(case.states, values):
            dtype = jnp.finfo(state.dtype).dtype
            if dtype != precision:
                return Finding(False, f"{jnp.dtype(precision)} becomes {dtype}")
    return Finding(True, ", ".join(str(jnp.dtype(p)) for p in precisions))


def batches_agree(case: Case) -> Finding:
    """5. jit = eager and vmap = loop, in values and gradients."""
    neighbors = [case.neighbor(number) for number in range(3)]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *neighbors)

    def all_of(values):
        return case.states(values), jax.grad(case.functional)(values)

    loop = [jax.jit(all_of)(values) for values in neighbors]
    worst = largest_difference(loop[0][0], case.states(neighbors[0]))
    loop = jax.tree.map(lambda *x: jnp.stack(x), *loop)
    worst = max(worst, largest_difference(jax.jit(jax.vmap(all_of))(batch), loop))
    return _compare(worst, _SAME_ULPS * case.eps)


def failures_have_names(case: Case) -> Finding:
    """6. NaN in any leaf is a failure with a name, in its own lane of a batch only."""
    values = case.leaves.values
    lanes = [
        [x * jnp.nan if i == k else x for k, x in enumerate(values)]
        for i in range(-1, len(values))
    ]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *lanes)

    def run(values):
        simulation = case.leaves.rebuild(values)
        trajectory = simulate(simulation, case.times, case.given, throw=False)
        return trajectory.result == RESULTS.successful

    successful = np.asarray(jax.jit(jax.vmap(run))(batch))
    if not successful[0]:
        return Finding(False, "a NaN in one lane of a batch fails the others")
    silent = [n for n, ok in zip(case.leaves.names, successful[1:], strict=True) if ok]
    if silent:
        return Finding(False, f"NaN counts as success in {', '.join(silent)}")
    return Finding(True, "NaN in any leaf is reported, by lane")


def brief(error: Exception) -> str:
    """The kind of an exception and the first line of what it says."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:120]}"


def _compare(worst: float, allowed: float) -> Finding:
    detail = f"largest difference {worst:.0e}, allowed {allowed:.0e}"
    return Finding(bool(worst <= allowed), detail)
