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
from ._functional import Functional
from ._leaves import Leaves, float_outputs, random_directions
from ._taylor_remainder import Slopes, remainder_slopes


#: Both modes are tested unless a function has only one.
_MODES = ("forward", "reverse")


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
        found = [leaf.disagreement for leaf in self.leaves if leaf.flag != "no effect"]
        return float(np.max(found, initial=0.0))

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
    inputs = jax.tree.map(_as_array, inputs, is_leaf=_is_module)
    leaves = Leaves.of(inputs[0] if len(inputs) == 1 else inputs)
    if not leaves.names:
        raise ValueError(
            "inputs hold no float arrays to perturb; store quantities with jnp.asarray"
        )

    def outputs(values):
        tree = leaves.rebuild(values)
        with explain_tracer_errors("function", function):
            found = function(tree) if len(inputs) == 1 else function(*tree)
        return float_outputs(found)

    sizes = _sizes(leaves, scale)
    directions = random_directions(leaves.values, sizes, seed)
    functional = Functional(outputs, leaves.values, directions, seed)
    gradient = functional.gradient() if "reverse" in modes else None
    found = []
    for i, name in enumerate(leaves.names):
        along = [d if i == k else np.zeros_like(d) for k, d in enumerate(directions)]
        derivatives, terms = {}, 0.0
        if "forward" in modes:
            derivatives["forward"] = functional.derivative(along)
        if gradient is not None:
            products = np.real(gradient[i] * directions[i].astype(gradient[i].dtype))
            derivatives["reverse"] = float(np.sum(products))
            terms = float(np.sum(np.abs(products)))
        change = functools.partial(functional.change, along)
        resolution = functional.eps * _largest(leaves.values[i]) / sizes[i]
        slopes = remainder_slopes(change, derivatives, functional.eps, resolution)
        leaf = _verdict(name, slopes, derivatives, terms=terms, tolerance=tolerance)
        found.append(leaf)
    return TaylorReport(tuple(found))


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module)


def _as_array(leaf: Any) -> object:
    """Python floats become arrays, but those of a module, which are settings."""
    return jnp.asarray(leaf) if isinstance(leaf, float) else leaf


def _verdict(name: str, found: Slopes, derivatives, *, terms, tolerance) -> LeafReport:
    disagreement = float("nan")
    if len(derivatives) == 2:
        difference = abs(derivatives["forward"] - derivatives["reverse"])
        disagreement = difference / terms if terms else difference
    return LeafReport(name, found.slopes, disagreement, found.flag, tolerance)


def _sizes(leaves: Leaves, scale: float | Mapping[str, float]) -> list[float]:
    stated = scale if isinstance(scale, Mapping) else {}
    unknown = set(stated) - set(leaves.names)
    if unknown:
        raise ValueError(
            f"scale names {sorted(unknown)}, the leaves are {list(leaves.names)}"
        )
    of_zeros = 1.0 if isinstance(scale, Mapping) else scale
    return [
        stated.get(name, _largest(value) or of_zeros)
        for name, value in zip(leaves.names, leaves.values, strict=True)
    ]


def _largest(value: Any) -> float:
    """The largest entry of a leaf, by absolute value."""
    return float(np.max(np.abs(value), initial=0.0))
