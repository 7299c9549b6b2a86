"""`RESULTS`: every way a run can fail, and what a failure does."""

import contextlib
import enum
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ._jit._fresh_jit import SURROUNDINGS, Surrounding
from ._types import PyTree
from ._validation import PositiveParameter


if TYPE_CHECKING:
    # Equinox's enumerations have two metaclasses, of which type checkers make nothing,
    # and that spreads to all that holds an outcome. Items here are what those make of
    # them, and names of Diffrax's are items as well.

    class _Kind(enum.EnumMeta):
        def __getattr__(cls, name: str) -> "RESULTS": ...
        def __getitem__(cls, item: Any) -> str: ...

    class _Outcome(enum.Enum, metaclass=_Kind):
        _name_to_item: ClassVar[dict[str, Any]]

        @classmethod
        def where(cls, pred: Any, a: Any, b: Any) -> "RESULTS": ...
        @classmethod
        def promote(cls, item: Any) -> "RESULTS": ...
        def is_traced(self) -> bool: ...
        def error_if(self, token: PyTree, pred: Any) -> PyTree: ...
        def __eq__(self, other: Any) -> Array: ...
        def __ne__(self, other: Any) -> Array: ...
else:
    _Outcome = diffrax.RESULTS


with warnings.catch_warnings():
    # Equinox warns of a sentence that is replaced; Diffrax's knows nothing of `Method`.
    warnings.simplefilter("ignore")

    class RESULTS(_Outcome):
        """Outcome of a run; `RESULTS[item]` is its sentence, empty for `successful`.

        All of `diffrax.RESULTS` (hence `optimistix.RESULTS` and `lineax.RESULTS`) and:
        """

        successful = ""
        max_steps_reached = (
            "The maximum number of solver steps was reached before the last time. For "
            "a long run raise `Method(max_steps=...)`, 65536 where it is not given, or "
            "loosen the tolerances, in float32 to 1e-5 say. Outside `jit` and "
            "derivatives a run without `max_steps` and without events goes on."
        )
        dt_min_reached = (
            "The steps became too short to go on. Bodies collide or are in one place, "
            "for which a softening length helps, the state goes to infinity in finite "
            "time, or it or a parameter is not a number, which rejects every step."
        )
        positivity_lost = (
            "A density, pressure or depth was lost to values that are not positive, "
            "and with it the state. `scheme=pde.MUSCL()` or `pde.Upwind()` keeps more "
            "of it than WENO5, and so do shorter steps, `controller=pde.CFL(0.3)`."
        )
        unstable_steps = (
            "The state grew more than a millionfold by steps that are longer than the "
            "solver is stable for, as the warning said. Take shorter ones, or "
            "`method=None`."
        )
        initial_state_not_finite = (
            "The initial state is infinite or not a number before the first step. Look "
            "at what `initial_state()` returns and at the parameters it is made of."
        )
        invalid_parameter = (
            "A parameter that must be positive, such as a diffusivity, a viscosity, a "
            "speed or the extent of a grid, `upper` less `lower`, is not, or is no "
            "finite number. Keep a sweep to what can be, and a fit by "
            "`Free(transform='log')` or by `Free(bounds=...)` above zero."
        )
        non_finite = (
            "The state became infinite or not a number, or the residual of an equation "
            "did. Try a shorter step, parameter values nearer the physical ones, "
            "between bodies a softening length, or of an equation another guess."
        )
        nonlinear_divergence = (
            "An equation could not be solved: Newton's method, or a linear solve in "
            "it, diverged. For the stages of an implicit step give a shorter `step`, "
            "or none, so that a controller finds it; what is explicit in them, "
            "advection say, may have blown up before. Else try another guess."
        )
        times_beyond_max_steps = (
            "A requested time lies more than `max_steps` steps from `t0`. Times or "
            "`t0` are traced, so the number of steps cannot follow them: raise "
            "`Method(max_steps=...)`, or pass concrete times and a Python float `t0`."
        )
        times_not_finite = (
            "A requested time or `t0` is infinite or not a number, or lies farther "
            "from `t0` than the type of the state can say. Look at what they are "
            "computed from."
        )
        events_beyond_limit = (
            "An event happened more often than can be recorded. Raise "
            "`Event(limit=...)`; a ball that comes to rest bounces without end."
        )
        event_not_finite = (
            "The condition of an event was not a number at some step, so that events "
            "may be lost. Write it so that it is finite wherever the run goes, without "
            "roots and logarithms of what may be negative."
        )
        transit_missing = (
            "A transit of an epoch that was asked for does not happen before `until`, "
            "or not at all where the planet never passes in front of the star. Epoch 0 "
            "is the first after `t0`: give a later `until`, or keep periods and phases "
            "near those of the data; outside of `jit` this sentence names the planet."
        )
        guess_not_finite = (
            "The guess is infinite or not a number. Begin at finite numbers near the "
            "answer."
        )
        chi2_not_finite = (
            "The prediction is finite, but chi2, the sum of its squared distances from "
            "the data over sigma, is not: a sigma is too small beside them. Give sigma "
            "in the units of the data, and look at its smallest."
        )
        likelihood_not_finite = (
            "The prediction is finite, but its likelihood is not: an expected count is "
            "not positive, a probability not within 0 and 1, a covariance not positive "
            "definite, or a datum impossible, such as a label beyond the categories. "
            "Keep parameters to what can be, by `Free(transform='log')` or "
            "`Free(bounds=...)`."
        )
        prior_not_finite = (
            "The prior density is 0 or not a number at these parameters, which are "
            "outside of what it allows. Begin inside, or look at "
            "`Free(prior=...).prior.log_prob(value)`."
        )
        prediction_not_finite = (
            "The prediction is not finite. If `predict` runs a simulation or solves an "
            "equation, call that at these parameter values on its own: it raises the "
            "reason."
        )
        derivative_not_finite = (
            "The outputs are finite and their derivative is not: at these parameter "
            "values there is none, as of a square root or a norm at 0, or a branch of "
            "`jnp.where` that is not taken has none. Move them, or write it so that "
            "what is not taken is finite too."
        )
        no_progress = (
            "No step lowered the objective. The fit may be at its optimum to machine "
            "precision; otherwise try another start or `Free(scale=...)` for badly "
            "scaled parameters."
        )
        stopped_short = (
            "The search stopped before the optimum: its updates died out where a "
            "Gauss-Newton step would still move more than a tenth of an error bar. "
            "Give it larger updates or a slower decay, or take `LevenbergMarquardt`."
        )
        no_root = (
            "The solver stopped where the residual does not vanish: before a root, or "
            "at a minimum of its size, a pole or a jump. Try another guess or bracket, "
            "a globally convergent solver such as `optimistix.Dogleg`, or tighter "
            "tolerances; an absolute one presumes units of the unknown."
        )
        no_bracket = (
            "The residual has the same sign at both ends of the bracket, or is not a "
            "number there. Widen `BracketedNewton(lower, upper)`; a root where the "
            "residual does not change its sign needs another solver."
        )
        no_minimum = (
            "The solver stopped where there is no minimum: the gradient does not "
            "vanish, or the objective rose or falls from there to some side, as from a "
            "maximum or a ridge. Try another guess; of a `solver` of your own, tighter "
            "tolerances, of which an absolute one presumes units."
        )
        operator_not_linear = (
            "The operator is not linear: of zeros it does not make zeros. Leave out "
            "what is constant in it, the boundary value say, and subtract it from b."
        )
        incompatible_data = (
            "The right-hand side and the boundary values do not balance, where they "
            "determine the unknown up to a constant: an elliptic problem with alpha = "
            "0 between Neumann or periodic boundaries. Subtract from f the mean of "
            "both together, or give an alpha above 0."
        )
        no_steady_state = (
            "No steady state was found from this initial state. There may be none at "
            "these parameters, as beyond a fold or where boundaries let out less than "
            "comes in, or none that attracts; else start nearer to it, from that of "
            "parameters nearby, try a shorter `solver=pde.PseudoTransient(0.1)`, or "
            "raise `max_steps`."
        )
        steady_state_not_determined = (
            "A steady state was found and not what determines it: a linear solve there "
            "did not converge. Others may be right beside it, as at a fold, or where "
            "diffusion between Neumann or periodic boundaries leaves the mean "
            "undetermined: fix the field at a boundary, or add a reaction that does. "
            "Else, where advection is strong, take `solver=pde.PseudoTransient("
            "linear_solver=implicit.Krylov(implicit.GMRES(200), max_steps=4000))`."
        )
        no_linear_solution = (
            "A linear system could not be solved: its matrix (of `root`, the Jacobian "
            "of the residual) is singular or not of the structure that its linear "
            "solver presumes, or an iterative one ran out of steps. Where a residual "
            "has a minimum instead of a root, no guess helps; if the equation does not "
            "determine its unknown, `MinimumNorm()` takes the shortest answer; for an "
            "iterative solver raise `Krylov(max_steps=...)`."
        )
        # Last, for outcomes that are stored are stored as numbers.
        event_not_located = (
            "The condition of an event changed its sign within a step, and no zero of "
            "it was found there. A condition that jumps, as an angle that wraps does, "
            "can be recorded and cannot end or reset a run: write it so that it is "
            "continuous, `jnp.sin(angle)` say; else take shorter steps."
        )
        unstable_state = (
            "A steady state was found that repels: a wave beside it grows, so that no "
            "run in time comes to it or stays. Start nearer to where time goes, from "
            "a run of `simulate` say; `attracting=False` returns such states."
        )
        field_not_finite = (
            "The field became infinite or not a number, or would in a step of any "
            "length. It may go to infinity in finite time, as one that a source makes "
            "grow faster than itself. Else steps are too long for the equation: give a "
            "shorter one, or `controller=pde.CFL(0.3)`; or a coefficient has the wrong "
            "sign."
        )


def equals(result: Any, wanted: Any) -> bool | Array | np.ndarray:
    """`result == wanted`, of a single known result as a Python bool."""
    if result.is_traced() or np.ndim(*jax.tree.leaves(result)):
        return result == wanted
    return is_outcome(result, wanted)


def is_outcome(result: Any, wanted: Any) -> bool:
    """Whether a result that is known is `wanted`."""
    # By NumPy: asking JAX would compile a program in every process.
    code, number = (np.asarray(*jax.tree.leaves(item)) for item in (result, wanted))
    return bool(code == number)


def raise_if_failed(
    tree: PyTree, result: Any, sentence: Callable[[], str] | None = None
) -> PyTree:
    """`tree`; raises if `result` is a failure, at once or, in compiled code, at run.

    At once with the `sentence` for it, where there is one to be found.
    """
    if result.is_traced():
        return result.error_if(tree, result != RESULTS.successful)
    if not is_outcome(result, RESULTS.successful):
        raise RuntimeError(RESULTS[result] if sentence is None else sentence())
    return tree


def result_message(result: Any) -> str | None:
    """`result` for a person; None where it is traced, or one for each of a batch."""
    if result.is_traced() or np.ndim(result == RESULTS.successful):
        return None
    return RESULTS[result] or "successful"


#: Part of the key by which JAX finds what it has compiled, or a `predict` that was
#: compiled outside would raise inside.
_poisoning = jax.make_user_context(False)


@contextlib.contextmanager
def failures_as_nan():
    """Context manager: what has `throw=None` returns NaN and a RESULTS, and does not
    raise: `simulate`, and the layers of `diffsim.implicit`.

    ```python
    with simulations.failures_as_nan():
        trajectory = ds.simulate(problems.pythagorean(), 10.0, max_steps=20)
    ds.RESULTS[trajectory.result]  # what went wrong, and what to try
    ```

    `fit`, `fisher` and `sweep` call `predict` inside it, so that one trial step or one
    member of a batch that fails does not end the others. A parameter without physical
    meaning, as a negative diffusivity or an ellipse of eccentricity 1.2, is such a
    failure here, whether or not it is known while Python runs.
    """
    with _poisoning(True):
        yield


SURROUNDINGS.append(
    Surrounding(lambda: _poisoning.value, lambda anew: failures_as_nan())
)


def check_signs(signs: Sequence[PositiveParameter]):
    """Raise `ValueError` for known parameters that are not of their sign.

    Inside `failures_as_nan` a run with them fails, as it does where they are traced.
    """
    if not should_return_nan(None):
        for sign in signs:
            sign.check()


def should_return_nan(throw: bool | None) -> bool:
    """Whether `throw` makes a failure NaN here."""
    return throw is None and _poisoning.value


def should_raise(throw: bool | None) -> bool:
    """Whether `throw` makes a failure raise here."""
    return throw is True or (throw is None and not _poisoning.value)


def nan_unless(tree: PyTree, ok: Bool[Array, "*shape"]) -> PyTree:
    """`tree`, and NaN in values and derivatives where not `ok`."""
    # A product and not `where`: `where` would hand out a derivative of zero.
    return jax.tree.map(
        lambda x: (
            x * jnp.where(ok, 1, jnp.nan).astype(x.dtype)
            if eqx.is_inexact_array(x)
            else x
        ),
        tree,
    )


def nan_after(
    states: PyTree, reached: Bool[Array, " time"], ok: Bool[Array, ""]
) -> PyTree:
    """`states` with NaN at the times that were not `reached`, on the first axis.

    Derivatives are NaN as well, but where a run that is `ok` ended before: what comes
    after its end depends on nothing.
    """

    def leaf_after(x, reached):
        if not eqx.is_inexact_array(x):
            return x
        return jnp.where(reached | ~ok, nan_unless(x, reached | ok), jnp.nan)

    return jax.vmap(lambda x, r: jax.tree.map(lambda a: leaf_after(a, r), x))(
        states, reached
    )


def is_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every float in `tree` is finite."""
    leaves = [x for x in jax.tree.leaves(tree) if eqx.is_inexact_array(x)]
    # ∞ - ∞ is no number, and sums of floats are faster than `all`, of singles thrice.
    # Not 0 · ∞: on CPUs XLA makes a field of zeros for it.
    sums = [jnp.isfinite(jnp.sum(x - x)) for x in leaves]
    return jnp.all(jnp.stack(sums or [jnp.asarray(True)]))
