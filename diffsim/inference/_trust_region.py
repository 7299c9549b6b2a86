"""Trust-region step: the linear algebra of Levenberg–Marquardt."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from .._linalg import matmul


class Step(eqx.Module):
    """A trial step of the scaled parameters and what the linear model expects of it."""

    step: Float[Array, " parameter"]
    length: Float[Array, ""]
    damping: Float[Array, ""]
    predicted: Float[Array, ""]
    slope: Float[Array, ""]

    def shortened(self, root: Array, step: Array) -> "Step":
        """The expectations for `step`, what the bounds have left of this one."""
        n = step.size
        return _expected(root[:n, :n], root[:n, n], step, self.damping)


def triangular_root(rows: Array) -> Array:
    """The square upper triangle R with RᵀR = rowsᵀ rows, without forming either."""
    root = jnp.linalg.qr(rows, mode="r")
    missing = rows.shape[1] - root.shape[0]
    return jnp.pad(root, ((0, max(missing, 0)), (0, 0)))


def trust_region_step(root: Array, held: Bool[Array, " parameter"], **trust) -> Step:
    r"""Minimizes $\tfrac12|As + q|^2$ over $|s| \le \Delta$ with entries `held` at 0.

    **Arguments:** `root` is the triangle of $[A\;q]$; `trust` has `radius` and the last
    `damping` to start from.

    The damping $\lambda$ of $(A^TA + \lambda)s = -A^Tq$ is found by Newton's method on
    $1/|s(\lambda)|$ to a tenth of the radius, each trial a QR of the stacked
    $[A; \sqrt\lambda]$, as in MINPACK's lmpar (More 1978).
    """
    n = held.size
    a = jnp.where(held, 0, root[:n, :n])
    q = root[:n, n]
    step, damping = _damping(a, q, **trust)
    return _expected(a, q, jnp.where(held, 0, step), damping)


def adapt_radius(
    step: Step, gain: Array, ratio: Array, *, radius: Array, first: Array
) -> tuple[Array, Array]:
    """The next radius and damping; the constants are those of MINPACK's lmder."""
    radius = jnp.where(first, jnp.minimum(radius, step.length), radius)
    shrink = jnp.where(gain >= 0, 0.5, 0.5 * step.slope / (step.slope + gain))
    shrink = jnp.where(jnp.isfinite(gain), jnp.clip(shrink, 0.1, 0.5), 0.1)
    smaller = shrink * jnp.minimum(radius, 10 * step.length)
    good = (ratio >= 0.75) | (step.damping == 0)
    poor = ~(ratio > 0.25)
    return (
        jnp.where(poor, smaller, jnp.where(good, 2 * step.length, radius)),
        step.damping * jnp.where(poor, 1 / shrink, jnp.where(good, 0.5, 1.0)),
    )


def newton_step(root: Array, held: Bool[Array, " parameter"]) -> tuple[Array, Array]:
    """The Gauss-Newton step that is still to go, and its length in error bars."""
    n = held.size
    a = jnp.where(held, 0, root[:n, :n])
    triangle = _stack_damping(a, root[:n, n], _least_damping(a))
    step = -solve_triangular(triangle[:n, :n], triangle[:n, n])
    return step, jnp.linalg.norm(triangle[:n, n])


def _expected(a: Array, q: Array, step: Array, damping: Array) -> Step:
    move = matmul(a, step)
    # Equal to |As|²/2 + λ|s|² for a full step, and right for a shortened one as well.
    predicted = -matmul(move, q + move / 2)
    return Step(step, jnp.linalg.norm(step), damping, predicted, matmul(move, q))


def _least_damping(a: Array) -> Array:
    """Keeps a singular Gauss-Newton step finite; below rounding for any other."""
    return (4 * jnp.finfo(a.dtype).eps) ** 2 + jnp.zeros((), a.dtype)


def _stack_damping(a: Array, q: Array, damping: Array) -> Array:
    below = jnp.sqrt(damping) * jnp.eye(a.shape[1], dtype=a.dtype)
    above = jnp.concatenate([a, q[:, None]], axis=1)
    return triangular_root(jnp.concatenate([above, jnp.pad(below, ((0, 0), (0, 1)))]))


def _solve(a: Array, q: Array, damping: Array) -> tuple[Array, Array, Array]:
    """The damped step, its length, and how fast 1/length changes with the damping."""
    n = a.shape[1]
    triangle = _stack_damping(a, q, damping)
    step = -solve_triangular(triangle[:n, :n], triangle[:n, n])
    length = jnp.linalg.norm(step)
    unit = step / jnp.where(length > 0, length, 1)
    along = solve_triangular(triangle[:n, :n], unit, trans=1)
    return step, length, matmul(along, along)


def _damping(a: Array, q: Array, radius: Array, damping: Array) -> tuple[Array, Array]:
    """The step of the wanted length and its damping, 0 for a Gauss-Newton step."""
    highest = jnp.linalg.norm(matmul(a.T, q)) / radius

    def unfinished(carry):
        _, _, _, done, count = carry
        return ~done & (count < 11)

    def body(carry):
        _, trial, (low, high), _, count = carry
        step, length, rate = _solve(a, q, trial)
        excess = length - radius
        correction = excess / (radius * rate)
        newton = count == 0
        fits = jnp.where(newton, excess, jnp.abs(excess)) <= 0.1 * radius
        low = jnp.where(excess > 0, jnp.maximum(low, trial), low)
        high = jnp.where(excess < 0, jnp.minimum(high, trial), high)
        follow = jnp.maximum(low, trial + correction)
        # After the Gauss-Newton trial: bracket, and go on from the last damping.
        low = jnp.where(newton, jnp.maximum(correction, 0), low)
        again = jnp.clip(damping, low, jnp.maximum(high, low))
        again = jnp.where(again > 0, again, high * radius / length)
        following = jnp.where(newton, again, follow)
        kept = jnp.where(fits, trial, following)
        return step, kept, (low, high), fits, count + 1

    start = jnp.zeros_like(q), _least_damping(a), (jnp.zeros_like(radius), highest)
    step, trial, _, _, count = jax.lax.while_loop(
        unfinished, body, (*start, jnp.array(False), 0)
    )
    return step, jnp.where(count == 1, 0, trial)
