"""The rules that `tools/mutants.py` breaks, one at a time, and the law of each.

A mutant is what a real mistake would look like: it runs, and some public call returns
a wrong number, derivative or file. Its old text stands in its file exactly once, or it
is refused; `tests/test_mutants.py` says so as soon as the code has moved on.
"""

import pathlib
from typing import NamedTuple


class Mutant(NamedTuple):
    """One rule to break: in `file`, `new` for `old`."""

    name: str
    file: str
    old: str
    new: str
    #: What holds in the library and not in the mutant.
    law: str
    #: The file of tests that is expected to notice, and so is run first.
    caught_by: str | None = None


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of the mutant's file, the rule broken; refuse any other text."""
    count = text.count(mutant.old)
    if count != 1:
        raise ValueError(
            f"{mutant.name}: its old text must stand in {mutant.file} once, and does "
            f"{count} times; write it as the code is now, or with more around it"
        )
    return text.replace(mutant.old, mutant.new)


def package_of(mutant: Mutant) -> str | None:
    """Return the package that a mutant is in, None in the foundation of all."""
    _, package, *_ = pathlib.PurePosixPath(mutant.file).parts
    return None if package.startswith("_") else package


_FOUNDATION = (
    Mutant(
        "file-written-in-place",
        "diffsim/_atomic_file.py",
        "    part.touch(0o666 if permissions is None else permissions | 0o200, "
        "exist_ok=False)\n",
        "    part = path\n",
        "A write that fails leaves the old file as it was.",
        "tests/simulations/test_serialization.py",
    ),
    Mutant(
        "nan-is-zero-to-max-norm",
        "diffsim/_linalg.py",
        "jnp.where(jnp.isnan(x), jnp.inf, jnp.abs(x))",
        "jnp.where(jnp.isnan(x), 0, jnp.abs(x))",
        "A norm is infinite where an entry is not a number.",
        "tests/test_norms.py",
    ),
    Mutant(
        "second-derivative-sees-the-iterations",
        "diffsim/_jaxpr/_primitives.py",
        "outputs = _sealed.bind(*inputs, jaxpr=jaxpr, tangent=tangent)",
        "outputs = _run(*inputs, jaxpr=jaxpr, tangent=tangent)",
        "A custom derivative is the one that it was given, of the second order too.",
        "tests/test_primitives.py",
    ),
    Mutant(
        "program-found-by-another-constant",
        "diffsim/_jaxpr/_tracing.py",
        "_Hashed(_key(jaxpr, depth))",
        "_Hashed(_key(jaxpr, depth, []))",
        "A compiled program is that of the constants in its loops and branches.",
        "tests/test_constants_in_functions.py",
    ),
    Mutant(
        "program-found-by-another-rule",
        "diffsim/_jaxpr/_tracing.py",
        "    return *((name, _of_param(x, depth)) for name, x in params), rule\n",
        "    return *((name, _of_param(x, depth)) for name, x in params), None\n",
        "A compiled program is that of the derivatives that users' rules give.",
        "tests/test_users_code.py",
    ),
    Mutant(
        "swept-value-in-double-precision",
        "diffsim/_parameter_selection.py",
        "vector[begin : begin + part.size].astype(old.dtype)",
        "vector[begin : begin + part.size]",
        "A value that is put into a model has the type of its leaf.",
        "tests/test_parameter_selection.py",
    ),
    Mutant(
        "failure-with-derivative-zero",
        "diffsim/_results.py",
        "            x * jnp.where(ok, 1, jnp.nan).astype(x.dtype)\n",
        "            jnp.where(ok, x, jnp.nan)\n",
        "The derivative of what failed is NaN, not zero.",
        "tests/simulations/test_failures.py",
    ),
)

_IMPLICIT = (
    Mutant(
        "reverse-adjoint-with-other-sign",
        "diffsim/implicit/_implicit_differentiation.py",
        "return jax.tree.map(jnp.negative, pull(multiplier)[1])",
        "return pull(multiplier)[1]",
        "Reverse-mode adjoints have the gradient of the primitive.",
        "tests/implicit/test_root.py",
    ),
    Mutant(
        "hessian-of-a-frozen-jacobian",
        "diffsim/implicit/_implicit_differentiation.py",
        "jax.linearize(lambda z: f(z, moving), y)",
        "jax.linearize(lambda z: f(z, moving), jax.lax.stop_gradient(y))",
        "The second derivative of a root sees how its Jacobian moves with it.",
        "tests/implicit/test_jax_transformations.py",
    ),
    Mutant(
        "dense-adjoint-without-row-scales",
        "diffsim/implicit/_linear_solvers/_dense.py",
        "return rows * back",
        "return back",
        "One factorization of scaled rows solves for tangents and for adjoints.",
        "tests/implicit/test_linear_solvers.py",
    ),
    Mutant(
        "maximum-taken-for-a-minimum",
        "diffsim/implicit/_implicit_layer.py",
        "is_best &= is_bowl(lambda z: equation(z, theta), y, start)",
        "pass",
        "Saddles and maxima are not reported as minima.",
        "tests/implicit/test_minimise_scales.py",
    ),
)

_SIMULATIONS = (
    Mutant(
        "replay-backwards-without-output-times",
        "diffsim/simulations/_integrate/_replay.py",
        "times = times.at[jnp.maximum(output, 0)].add(jnp.where(here, end, 0))",
        "times = times.at[jnp.maximum(output, 0)].add(jnp.where(here, 0 * end, 0))",
        "Adaptive runs have the derivative by output times in reverse mode as well.",
        "tests/simulations/test_replay.py",
    ),
    Mutant(
        "reversible-forces-a-step-late",
        "diffsim/simulations/_integrate/_reversible_adjoint.py",
        "jax.vjp(lambda y, f: advance(y, f, before, length), y, floating)",
        "jax.vjp(lambda y, f: advance(y, f, n, length), y, floating)",
        "Running backwards, a step is differentiated at its own time.",
        "tests/simulations/test_derivatives.py",
    ),
    Mutant(
        "blocks-take-the-steps-of-the-whole-segment",
        "diffsim/simulations/_integrate/_fixed_steps.py",
        "left = None if count is None else count - done",
        "left = None if count is None else count + 0 * done",
        "A run that is differentiated takes the steps of one that is not.",
        "tests/simulations/test_derivatives.py",
    ),
    Mutant(
        "steps-against-the-clock",
        "diffsim/simulations/_integrate/_step.py",
        "length = self.direction * length",
        "length = jnp.abs(self.direction) * length",
        "Outputs before the epoch are the solution there.",
        "tests/simulations/test_replay.py",
    ),
    Mutant(
        "event-found-at-its-start",
        "diffsim/simulations/_events/_detection.py",
        "up, down = (before < 0) & (after >= 0), (before > 0) & (after <= 0)",
        "up, down = (before <= 0) & (after > 0), (before >= 0) & (after < 0)",
        "A condition that is zero at the start of a step belongs to the past.",
        "tests/simulations/test_events.py",
    ),
    Mutant(
        "failure-before-the-epoch-swallowed",
        "diffsim/simulations/_integrate/_integrate.py",
        "RESULTS.where(failed, past.result, future.result),",
        "future.result,",
        "The result of a run in both directions is that of the one that failed.",
        "tests/simulations/test_failures.py",
    ),
    Mutant(
        "epoch-in-single-precision",
        "diffsim/simulations/_elapsed_time.py",
        "return self.high + (self.low + later)",
        "return self.high + later",
        "Forces of single precision get the date rounded once.",
        "tests/simulations/test_epoch.py",
    ),
    Mutant(
        "derivative-by-time-halved-at-the-epoch",
        "diffsim/simulations/_integrate/_fixed_step_outputs.py",
        "ahead = jnp.where(elapsed >= 0, elapsed, 0)",
        "ahead = jnp.maximum(elapsed, 0)",
        "The derivative of an output by its time is the vector field, at t0 too.",
        "tests/simulations/test_traced_times.py",
    ),
)

_INTEGRATORS = (
    Mutant(
        "symplectic-kick-at-the-start-of-its-stage",
        "diffsim/integrators/_symplectic/_symplectic_solver.py",
        "middle = t0 + (start + second / 2) * length",
        "middle = t0 + start * length",
        "Forces that depend on time keep the order of a symplectic solver.",
        "tests/simulations/test_outputs.py",
    ),
    Mutant(
        "kahan-li-with-two-digits-swapped",
        "diffsim/integrators/_symplectic/_kahan_li.py",
        "0.15884190655515560089621075",
        "0.15884910655515560089621075",
        "The weights of a composition satisfy its order conditions.",
        "tests/integrators/test_symplectic.py",
    ),
    Mutant(
        "phi-derivative-without-its-factor",
        "diffsim/integrators/_exponential/_phi.py",
        "phi[k] - k * phi[k + 1] for k",
        "phi[k] - min(k, 1) * phi[k + 1] for k",
        "φ_k' = φ_k − k φ_{k+1}, on which derivatives by the linear part stand.",
        "tests/integrators/test_exponential.py",
    ),
    Mutant(
        "slopes-kept-over-a-jump",
        "diffsim/integrators/_runge_kutta/_esdirk.py",
        "return jax.lax.cond(jumped, slopes, lambda: last)",
        "return last",
        "The first slopes of a step are new behind a discontinuity.",
        "tests/integrators/test_fixed_imex.py",
    ),
)

_NBODY = (
    Mutant(
        "kepler-jvp-without-time",
        "diffsim/nbody/_kepler/_kepler_drift.py",
        "ds = (move.dt - g1 * dr - g2 * dsigma",
        "ds = (-g1 * dr - g2 * dsigma",
        "The anomaly of a Kepler step moves with its length.",
        "tests/nbody/test_kepler_drift.py",
    ),
    Mutant(
        "kepler-hessian-without-anomaly",
        "diffsim/nbody/_kepler/_kepler_drift.py",
        "return [dx, dv, shift_of_anomaly(which, primals, moved)]",
        "return [dx, dv, None]",
        "Second derivatives of a Kepler step go through its anomaly.",
        "tests/nbody/test_kepler_drift.py",
    ),
    Mutant(
        "ias15-forgets-what-was-rounded",
        "diffsim/nbody/_gauss_radau/_radau_step.py",
        "return x1, v1, Guess(powers, h, low_x, low_v)",
        "return x1, v1, Guess(powers, h, 0 * low_x, 0 * low_v)",
        "Rounding of a step is carried to the next: energy errors are random walks.",
        "tests/nbody/test_ias15.py",
    ),
    Mutant(
        "pair-across-the-ring-counted-twice",
        "diffsim/nbody/_forces/_direct_sum.py",
        "if 2 * k < bodies:",
        "if 2 * k <= bodies:",
        "Systems side by side attract as each alone.",
        "tests/nbody/test_direct_sum.py",
    ),
    Mutant(
        "post-newtonian-without-potential-at-the-source",
        "diffsim/nbody/_forces/_post_newtonian.py",
        "        - phi[:massive]\n",
        "",
        "All pairs accelerate as Einstein, Infeld and Hoffmann have it.",
        "tests/nbody/test_post_newtonian.py",
    ),
    Mutant(
        "whole-jump-after-the-kick",
        "diffsim/nbody/_wisdom_holman/_kepler_splitting.py",
        """
    z = _jump(constants.frame, z, h / 2)
    kick = _KICKS[flow]
    change = kick(g, Change(z.q, z.center), h)
    w, w_low = add_compensated(z.w, z.w_low, change.orbits)
    z = z._replace(w=w, w_low=w_low, speed=z.speed + change.center)
    return _jump(constants.frame, z, h / 2)
""",
        """
    kick = _KICKS[flow]
    change = kick(g, Change(z.q, z.center), h)
    w, w_low = add_compensated(z.w, z.w_low, change.orbits)
    z = z._replace(w=w, w_low=w_low, speed=z.speed + change.center)
    return _jump(constants.frame, z, h)
""",
        "A kick stands between two half jumps, as in WHFast.",
        "tests/nbody/test_wisdom_holman.py",
    ),
    Mutant(
        "light-arrives-before-it-leaves",
        "diffsim/nbody/_transits.py",
        "t = t - jnp.sum(x[:, planet] * n) / c",
        "t = t + jnp.sum(x[:, planet] * n) / c",
        "What is farther away is seen later.",
        "tests/nbody/test_transit_times.py",
    ),
    Mutant(
        "softening-error-names-g",
        "diffsim/nbody/_forces/_gravity.py",
        'finite("softening", array_of(',
        'finite("G", array_of(',
        "An error names the argument that is wrong.",
        "tests/nbody/test_usage_errors.py",
    ),
)

_PDE = (
    Mutant(
        "ghosts-transposed-in-the-other-order",
        "diffsim/pde/_stencils.py",
        "        low = jnp.flip(low, axis)\n",
        "",
        "Ghosts of a lower side are transposed from the boundary outwards.",
        "tests/pde/test_stencils.py",
    ),
    Mutant(
        "boundary-frozen-at-time-zero",
        "diffsim/pde/_domain.py",
        "            return side.at(t, x), None",
        "            return side.at(0 * t, x), None",
        "Boundary values follow time.",
        "tests/pde/test_transient_forcing.py",
    ),
    Mutant(
        "van-albada-jvp-by-the-other-slope",
        "diffsim/pde/_finite_volume/_limiters.py",
        "product + before * share - 2 * slope * inverse * after,",
        "product + before * share - 2 * slope * inverse * before,",
        "The derivative of a limiter is that of its formula, on both sides.",
        "tests/pde/test_advection.py",
    ),
    Mutant(
        "hllc-between-waves-that-have-passed",
        "diffsim/pde/_finite_volume/_riemann_solver.py",
        "passed = jnp.where(rightwards, below_zero(slow), above_zero(fast))",
        "passed = jnp.where(rightwards, slow, fast)",
        "Where all waves run one way the flux is that of the side they come from.",
        "tests/pde/test_euler.py",
    ),
    Mutant(
        "fourier-adjoint-counts-modes-once",
        "diffsim/pde/_fourier.py",
        "np.prod(shape) * _backward(shape, max_mode, jnp.conj(bar) / once)",
        "np.prod(shape) * _backward(shape, max_mode, jnp.conj(bar))",
        "The transpose of a real transform knows which modes stand for two.",
        "tests/pde/test_fourier_basis.py",
    ),
    Mutant(
        "elliptic-solution-blind-to-coefficients",
        "diffsim/pde/_elliptic/_differentiable_solve.py",
        "(_residual, (system, b), guess is not None",
        "(_residual, (jax.lax.stop_gradient(system), b), guess is not None",
        "Solutions of elliptic problems have derivatives by their coefficients.",
        "tests/pde/test_elliptic_derivatives.py",
    ),
    Mutant(
        "obstacle-cut-off-at-one-periodic-side",
        "diffsim/pde/_incompressible/_staggered_grid.py",
        "ways = [(0, -1, 1) if self.periodic(i)",
        "ways = [(0, 1) if self.periodic(i)",
        "An obstacle goes on through a periodic side, whichever it is.",
        "tests/pde/test_incompressible_flow.py",
    ),
    Mutant(
        "lake-pushed-by-its-bottom",
        "diffsim/pde/_equations/_shallow_water.py",
        "slope = (u[0] + bottom) * difference(floor, axis - ndim)",
        "slope = u[0] * difference(floor, axis - ndim)",
        "A lake at rest over any bottom stays at rest.",
        "tests/pde/test_shallow_water.py",
    ),
    Mutant(
        "damping-forgotten-in-the-pull",
        "diffsim/pde/_equations/_wave.py",
        "length * _mean_decay(decay) * kick(t, u, args)",
        "length * kick(t, u, args)",
        "What accelerates a damped wave decays within the step.",
        "tests/pde/test_wave.py",
    ),
    Mutant(
        "spectrum-counts-modes-once",
        "diffsim/pde/_observables/_spectrum.py",
        "weights = hermitian_weights(grid.shape[-1], z.shape[-1])",
        "weights = np.ones(z.shape[-1])",
        "A spectrum sums to the mean square of its field.",
        "tests/pde/test_observables.py",
    ),
    Mutant(
        "steady-state-beside-others-taken-for-one",
        "diffsim/pde/_steady_state/_steady_state.py",
        "unique = _is_determined(linear_solver.krylov, *jacobian, y)",
        "unique = jnp.asarray(True)",
        "A steady state that nothing determines is a failure.",
        "tests/pde/test_steady_state.py",
    ),
    Mutant(
        "state-that-repels-taken-for-a-success",
        "diffsim/pde/_steady_state/_steady_state.py",
        "            repels = growth.is_growing\n",
        "            repels = growth.is_growing & False\n",
        "A steady state from which a wave grows is a failure.",
        "tests/pde/test_attracting_states.py",
    ),
    Mutant(
        "layer-by-the-arithmetic-mean",
        "diffsim/pde/_finite_volume/_operators.py",
        '    if face_mean == "harmonic":\n',
        '    if face_mean == "nothing":\n',
        "Cells one behind the other conduct by the harmonic mean.",
        "tests/pde/test_layers.py",
    ),
    Mutant(
        "coefficient-at-a-wall-with-a-kink",
        "diffsim/pde/_finite_volume/_operators.py",
        "slope = (far_4 * near + near_4 * far) / (near_4 + far_4)",
        "slope = jnp.where(near_4 < far_4, near, far)",
        "Derivatives by uniform coefficients are those of both sides.",
        "tests/pde/test_layers.py",
    ),
    Mutant(
        "small-growth-does-not-add-up",
        "diffsim/pde/_time_step/_stability_check.py",
        "most = min(_TOLERATED, np.exp(in_all / steps))",
        "most = _TOLERATED",
        "Steps that make short waves grow over a long run are warned of.",
        "tests/pde/test_stability_check.py",
    ),
    Mutant(
        "face-without-its-floor",
        "diffsim/pde/_equations/_conservation_law.py",
        "    return jnp.where(side < least, least, side)\n",
        "    return side\n",
        "No reconstruction is near vacuum where its cell is not.",
        "tests/pde/test_positivity.py",
    ),
    Mutant(
        "weight-of-the-mean-density",
        "diffsim/pde/_equations/_hydrostatic.py",
        "weight = jnp.where(ratio > 0, pressure * balanced, density * (low - high))",
        "weight = density * (low - high)",
        "An atmosphere of one temperature is at rest to rounding.",
        "tests/pde/test_atmosphere.py",
    ),
    Mutant(
        "shore-over-the-lower-bottom",
        "diffsim/pde/_equations/_shallow_water.py",
        "highest = jnp.where(high > low, high, low)",
        "highest = jnp.where(high > low, low, high)",
        "An island in a lake stays dry, and the lake at rest.",
        "tests/pde/test_positivity.py",
    ),
)

_INFERENCE = (
    Mutant(
        "prior-left-out-of-the-loss",
        "diffsim/inference/_posterior.py",
        "return losses + compared.prior.loss()",
        "return losses",
        "A prior acts as one more datum.",
        "tests/inference/test_free.py",
    ),
    Mutant(
        "half-the-information-of-sigma",
        "diffsim/inference/_likelihoods/_gaussian.py",
        "return jnp.sqrt(jnp.where(expected, 2.0, 1 + z**2))",
        "return jnp.sqrt(jnp.where(expected, 1.0, 1 + z**2))",
        "A normal datum knows ln σ to two units of information.",
        "tests/inference/test_fisher.py",
    ),
    Mutant(
        "masked-sigma-in-the-determinant",
        "diffsim/inference/_likelihoods/_gaussian.py",
        "        sigma = where_used(used, sigma, 1)\n",
        "",
        "Masked data are as if left out, their sigma included.",
        "tests/inference/test_likelihoods.py",
    ),
    Mutant(
        "upper-bound-that-does-not-hold",
        "diffsim/inference/_levenberg_marquardt.py",
        "(at_upper & (gradient < 0))",
        "(at_upper & (gradient > 0))",
        "A parameter at its upper bound that is pushed outwards is held there.",
        "tests/inference/test_fit.py",
    ),
    Mutant(
        "active-bound-moves-with-the-data",
        "diffsim/inference/_optimum.py",
        "gradient = jnp.where(held, z - jnp.where(held, side, 0), gradient)",
        "del held, side",
        "A parameter at an active bound has derivative zero by the data.",
        "tests/inference/test_fit.py",
    ),
    Mutant(
        "error-bar-of-the-transformed-parameter",
        "diffsim/inference/_fit_numbers.py",
        "norms * state.scale / jnp.abs(slope) / sigma",
        "norms * state.scale / sigma",
        "A transform changes neither values nor error bars.",
        "tests/inference/test_free.py",
    ),
    Mutant(
        "angle-beyond-its-turn",
        "diffsim/inference/_parameters.py",
        "turns = jnp.floor((x[at] - self.begin) / self.length)",
        "turns = 0 * x[at]",
        "Values on a circle are those of one turn.",
        "tests/inference/test_circles.py",
    ),
    Mutant(
        "density-without-jacobian-at-one-bound",
        "diffsim/inference/_unconstrained.py",
        "jnp.where(both, logistic, jnp.where(one, u, jnp.log(self.scale)))",
        "jnp.where(both, logistic, jnp.where(one, 0, jnp.log(self.scale)))",
        "The density of unconstrained coordinates has the Jacobian of their map.",
        "tests/inference/test_log_density.py",
    ),
    Mutant(
        "checkpoint-taken-up-with-other-data",
        "diffsim/inference/_checkpoint.py",
        '"data": _data(experiment),',
        '"data": [],',
        "A checkpoint of another fit is refused.",
        "tests/inference/test_checkpoints.py",
    ),
)

_SWEEPS = (
    Mutant(
        "part-run-by-two-processes",
        "diffsim/sweeps/_store_locks.py",
        "        if not _lock(own):\n",
        "        if False:\n",
        "No two processes run the same part of a store.",
        "tests/sweeps/test_store_refusals.py",
    ),
    Mutant(
        "flipped-bit-in-a-chunk-accepted",
        "diffsim/sweeps/_store_manifest.py",
        "if (here, found) != (size, checksum):",
        "if here != size:",
        "A chunk whose bytes have changed is run again.",
        "tests/sweeps/test_store_resume.py",
    ),
    Mutant(
        "flipped-bit-in-the-manifest-accepted",
        "diffsim/sweeps/_store_manifest.py",
        "    if checksum != zlib.crc32(json.dumps(content).encode()):\n",
        "    if checksum is None:\n",
        "What the manifest of a store says is believed by its checksum alone.",
        "tests/sweeps/test_store_resume.py",
    ),
    Mutant(
        "store-of-another-model-resumed",
        "diffsim/sweeps/_open_store.py",
        '"model": tree_digest(numbers),',
        '"model": tree_digest(()),',
        "A store of another model is refused.",
        "tests/sweeps/test_store_refusals.py",
    ),
    Mutant(
        "reversed-scan-run-forwards",
        "diffsim/_jaxpr/_batch_last.py",
        "            reverse=loop.reverse,\n",
        "",
        "A loop has the same order with the batch axis last.",
        "tests/sweeps/test_random_programs.py",
    ),
    Mutant(
        "outcomes-in-the-order-of-their-numbers",
        "diffsim/sweeps/_chunked_run.py",
        "self.keep(chunk.runs, outcomes._replace(cost=None))",
        "self.keep(np.sort(chunk.runs), outcomes._replace(cost=None))",
        "Runs that are sorted by their cost keep their own outcomes.",
        "tests/sweeps/test_run_costs.py",
    ),
    Mutant(
        "nan-counts-as-success",
        "diffsim/sweeps/_sweep_result.py",
        "status = RESULTS.where(usable, status, RESULTS.prediction_not_finite)",
        "status = RESULTS.where(usable, status, status)",
        "A run whose output is not finite has failed.",
        "tests/sweeps/test_sweep.py",
    ),
)

_VERIFY = (
    Mutant(
        "flagged-leaf-passes",
        "diffsim/verify/_taylor.py",
        'return self.flag == "below rounding"',
        "return True",
        "A leaf without effect fails the Taylor test.",
        "tests/verify/test_taylor.py",
    ),
    Mutant(
        "hessian-compared-with-itself",
        "diffsim/verify/_simulation_checks.py",
        "error = largest_difference(hessians[0], expected)",
        "error = 0.0",
        "A missing second derivative is found though all nestings agree on it.",
        "tests/verify/test_check_simulation.py",
    ),
)

_PROBLEMS = (
    Mutant(
        "planets-slower-than-their-circles",
        "diffsim/problems/_nbody_systems.py",
        "speeds = jnp.sqrt((1 + masses[1:]) / axes)",
        "speeds = jnp.sqrt(1 / axes)",
        "The problems are those whose answers are published.",
        "tests/nbody/test_problems.py",
    ),
)

_PLOTS = (
    Mutant(
        "ephemeris-weighted-by-sigma",
        "diffsim/plots/_observed_minus_computed.py",
        "if sigma is None else sigma**-2",
        "if sigma is None else 1 / sigma",
        "An ephemeris is fitted by weighted least squares.",
        "tests/plots/test_time_series_plots.py",
    ),
)

_CLI = (
    Mutant(
        "failed-runs-exit-with-zero",
        "diffsim/cli/_sweep_command.py",
        "return 0 if outcome.successful.all() else 3",
        "return 0",
        "The exit code of a sweep says whether runs failed.",
        "tests/cli/test_sweep_command.py",
    ),
    Mutant(
        "earth-weighted-by-the-moon",
        "diffsim/cli/_planet_masses.py",
        "weights[earth, [earth, moon]] = pair / pair.sum()",
        "weights[earth, [earth, moon]] = pair[::-1] / pair.sum()",
        "Earth and Moon are one body at their barycenter.",
        "tests/cli/test_demo.py",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_FOUNDATION,
    *_IMPLICIT,
    *_SIMULATIONS,
    *_INTEGRATORS,
    *_NBODY,
    *_PDE,
    *_INFERENCE,
    *_SWEEPS,
    *_VERIFY,
    *_PROBLEMS,
    *_PLOTS,
    *_CLI,
)
