"""`taylor_test`: does a derivative agree with the function it belongs to?"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._jaxpr._tracing import explain_tracer_errors
from .._text_table import MOST_ROWS, Block, Table, text_representation, verdict
from .._validation import one_of
from ._functional import Functional
from ._leaves import Leaves, float_outputs, random_directions


#: Both modes are tested unless a function has only one.
_MODES = ("forward", "reverse")
#: Rounding is the remainder at perturbations of so many ulps, where a quadratic term
#: cannot be seen: 1e-14 squared.
_ULPS = (16, 32, 64, 128)
#: A leaf that is zero and acts by its square, a softening, is lost there in its sum; it
#: appears in jumps at so many roots of an ulp.
_ROOTS = (4, 8)
#: Points count as clean above so many times the rounding: a slope over a factor 64 in h
#: is then off by at most 0.02.
_CLEAN = 30.0
#: Points, a factor 2 apart, that determine a slope, and the fewest that do.
_WINDOW, _LEAST = 7, 4
_LARGEST = 0.25


class LeafReport(eqx.Module):
    """Result of the Taylor test for one leaf.

    - `slopes`: slope of the remainder by mode; NaN where it is below rounding.
    - `disagreement`: forward minus reverse derivative, relative to the sum of the
        magnitudes of its terms; NaN if only one mode was tested.
    - `flag`: empty, or why there is no slope. `"below rounding"`: the remainder is
        below the rounding of the function at every step, which counts as passed.
        `"no effect"`: the function does not depend on the leaf, bit for bit.
        `"not finite"`: a derivative is NaN or infinite.
    """

    name: str
    slopes: dict[str, float]
    disagreement: float
    flag: str
    tolerance: float

    @property
    def passed(self) -> bool:
        if self.flag:
            return self.flag == "below rounding"
        return all(
            np.isnan(slope) or slope >= 2 - self.tolerance
            for slope in self.slopes.values()
        )


class TaylorReport(eqx.Module):
    """Taylor slopes of every leaf; `print` it for a table.

    `slopes[name]` holds the slope in each mode.
    """

    leaves: tuple[LeafReport, ...]

    @property
    def passed(self) -> bool:
        """Whether every leaf has slope 2 or more, or a remainder below rounding."""
        return all(leaf.passed for leaf in self.leaves)

    @property
    def slopes(self) -> dict[str, dict[str, float]]:
        """Slope of the remainder by leaf and by mode."""
        return {leaf.name: leaf.slopes for leaf in self.leaves}

    @property
    def disagreement(self) -> float:
        """Largest relative difference of forward and reverse mode; NaN for one mode."""
        seen = [leaf.disagreement for leaf in self.leaves if leaf.flag != "no effect"]
        return float(np.max(seen, initial=0.0))

    def __repr__(self) -> str:
        return text_representation(self, _description)


def _description(report: TaylorReport) -> list[Block]:
    modes, leaves = list(report.leaves[0].slopes), report.leaves
    more = max(0, len(leaves) - MOST_ROWS)
    if more:  # what failed is seen
        leaves = sorted(leaves, key=lambda leaf: leaf.passed)[:MOST_ROWS]
    rows = [
        (
            leaf.name,
            *(leaf.flag or f"{leaf.slopes[mode]:.3f}" for mode in modes),
            f"{leaf.disagreement:.0e}",
            verdict(leaf.passed),
        )
        for leaf in leaves
    ]
    return [Table(("Taylor slope", *modes, "fwd - rev", ""), rows, more=more)]


def taylor_test(
    function: Callable[..., Any],
    *inputs: Any,
    scale: float | Mapping[str, float] = 1.0,
    modes: Sequence[str] = _MODES,
    tolerance: float = 0.1,
    seed: int = 0,
) -> TaylorReport:
    r"""Compare the derivative of `function` with the function itself, leaf by leaf.

    $$|J(x + hv) - J(x) - h\,J'(x)v| = O(h^2), \qquad
        J = \sum_k w_k |f_k(x) + o_k|^2$$

    ```python
    def height(drag, speed):  # of a projectile, where it turns
        return (speed - jnp.log1p(drag * speed) / drag) / drag

    report = verify.taylor_test(height, jnp.array(0.2), jnp.array(3.0))
    report.passed, report.slopes  # 2 for each, in both modes
    ```

    A derivative that is right makes the remainder fall with slope 2 in $h$, or faster
    where the function has no second derivative either, as $x^3$ at 0; one that misses a
    term, with slope 1. The functional $J$ of the output is fixed and nonlinear, for a
    linear problem has no remainder otherwise, and weighs every output array by its own
    magnitude; its offsets $o$, an eighth of the response to a step, let it see what is
    0 at the point. $o$, $w$ and $v$ are random and seeded.

    The remainder is followed upwards from where it leaves the rounding of the function,
    which is measured: there it sees the smallest error of a derivative.
    Both signs of $h$ enter as a root mean square, which removes the cubic term.

    **Arguments**

    - `function`: any JAX function of `inputs` that returns arrays, or a `Trajectory`
        (its states are tested). Adaptive runs belong at frozen steps:
        `method.freeze_steps(trajectory)`.
    - `inputs`: pytrees. Every float or complex array in them is tested, as a whole,
        along one random direction. Python floats become arrays, also those in dicts,
        lists and tuples; those of a module are settings.
    - `scale`: the step is $h$ times the largest entry of the leaf, $h \le 1/4$. A
        number is used instead for leaves that are all zero; a mapping from the names of
        leaves states sizes of its own, for an epoch far from zero, say.
    - `modes`: `("forward", "reverse")`, or one of them.
    - `tolerance`: by how much a slope may fall short of 2.
    - `seed`: of weights and directions.

    **Returns:** `TaylorReport`, with `.passed`, `.slopes`, `.disagreement`, `.leaves`,
    and a table when printed.

    **Good values:** float64; a function that takes milliseconds, since each leaf costs
    20 to 50 calls.

    **Raises:** `ValueError` for a function that is not finite at `inputs`, inputs
    without float arrays, or an unknown mode.

    **Limits:** a leaf flagged `below rounding` is not proven (mathematics: its effect
    drowns in rounding). Kinks give slope 1 (mathematics).
    """
    if not modes or set(modes) - set(_MODES):
        raise ValueError(f"modes must be among {_MODES}, got {tuple(modes)}")
    # Python floats become arrays, but those of a module, which are settings.
    inputs = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) else leaf,
        inputs,
        is_leaf=lambda node: isinstance(node, eqx.Module),
    )
    leaves = Leaves.of(inputs[0] if len(inputs) == 1 else inputs)
    if not leaves.names:
        raise ValueError(
            "inputs hold no float arrays to perturb; store quantities with jnp.asarray"
        )
    stated = scale if isinstance(scale, Mapping) else {}
    of_zeros = 1.0 if isinstance(scale, Mapping) else scale
    for name in stated:
        one_of("a name in scale", name, leaves.names)
    largest = [float(np.max(np.abs(x), initial=0.0)) for x in leaves.values]
    sizes = [
        stated.get(name, size or of_zeros)
        for name, size in zip(leaves.names, largest, strict=True)
    ]

    def outputs(values):
        tree = leaves.rebuild(values)
        with explain_tracer_errors("function", function):
            output = function(tree) if len(inputs) == 1 else function(*tree)
        return float_outputs(output)

    directions = random_directions(leaves.values, sizes, seed)
    functional = Functional(outputs, leaves.values, directions, seed)
    gradient = functional.gradient() if "reverse" in modes else None
    reports = []
    for i, name in enumerate(leaves.names):
        along = [d if i == k else np.zeros_like(d) for k, d in enumerate(directions)]
        derivatives, disagreement = {}, float("nan")
        if "forward" in modes:
            derivatives["forward"] = functional.derivative(along)
        if gradient is not None:
            products = np.real(gradient[i] * directions[i].astype(gradient[i].dtype))
            derivatives["reverse"] = float(np.sum(products))
            if "forward" in modes:
                terms = float(np.sum(np.abs(products)))
                difference = abs(derivatives["forward"] - derivatives["reverse"])
                disagreement = difference / terms if terms else difference
        change = functools.cache(functools.partial(functional.change, along))
        resolution = functional.eps * largest[i] / sizes[i]
        slopes, flag = _slopes(change, derivatives, functional.eps, resolution)
        reports.append(LeafReport(name, slopes, disagreement, flag, tolerance))
    return TaylorReport(tuple(reports))


def _slopes(
    change: Callable[[float], float],
    derivatives: dict[str, float],
    eps: float,
    resolution: float,
) -> tuple[dict[str, float], str]:
    """Slopes of `change(h) - h derivative` in h by mode, or a flag why there is none.

    `resolution` is the least h that x + h v tells from x, for an epoch in years far
    more than the machine epsilon.
    """
    slopes = dict.fromkeys(derivatives, float("nan"))
    if not np.all(np.isfinite(list(derivatives.values()))):
        return slopes, "not finite"
    if not any(derivatives.values()) and change(_LARGEST) == change(-_LARGEST) == 0:
        return slopes, "no effect"
    for mode, derivative in derivatives.items():

        def remainder(h, derivative=derivative):
            ahead = change(h) - h * derivative
            behind = change(-h) + h * derivative
            return float(np.hypot(ahead, behind)) / np.sqrt(2)

        slope = _slope(remainder, eps, max(eps, abs(derivative) * resolution))
        if slope is None:
            return dict.fromkeys(derivatives, float("nan")), "not finite"
        slopes[mode] = slope
    return slopes, "below rounding" if np.all(np.isnan(list(slopes.values()))) else ""


def _slope(
    remainder: Callable[[float], float], eps: float, unseen: float
) -> float | None:
    """Slope over the smallest steps that stand clear of rounding, or what is `unseen`.

    NaN if the remainder stays within rounding; None if it is not finite where it is
    needed, which would otherwise look the same.
    """
    rounding = np.max([remainder(ulps * eps) for ulps in _ULPS])
    if rounding == 0:
        rounding = np.max([remainder(roots * np.sqrt(eps)) for roots in _ROOTS])
    floor = _CLEAN * max(rounding, unseen)
    clean: list[tuple[float, float]] = []
    h, size = 2.0 ** np.round(np.log2(np.sqrt(eps))), rounding
    while h <= _LARGEST and len(clean) < _WINDOW and np.isfinite(size):
        size = remainder(h)
        if np.isfinite(size) and size > floor:
            clean.append((h, size))
        elif len(clean) < _LEAST:
            clean.clear()
        h *= 2
    if len(clean) < _LEAST:
        return float("nan") if np.isfinite(size) else None
    steps, sizes = np.log2(np.asarray(clean)).T
    return float(np.polyfit(steps, sizes, 1)[0])
