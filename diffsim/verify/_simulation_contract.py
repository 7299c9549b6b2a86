"""`check_simulation`: the laws that every simulation obeys, tried on one."""

import dataclasses
from typing import Any

import equinox as eqx

from .._text_table import Block, Table, text_representation, verdict
from .._types import Numbers
from .._validation import instance
from ..simulations import AbstractSimulation, Method
from . import _simulation_checks
from ._leaves import Leaves
from ._simulation_checks import Case, Finding, brief
from ._taylor import TaylorReport


class Check(eqx.Module):
    """One law: whether it holds, and what was measured or went wrong."""

    number: int
    statement: str
    passed: bool
    detail: str


class CheckReport(eqx.Module):
    """Result of `check_simulation`; `print` it for a line a law.

    - `laws`: in order.
    - `taylor`: the slopes of every leaf; None if the derivatives could not be taken.
    """

    simulation: str
    laws: tuple[Check, ...]
    taylor: TaylorReport | None

    @property
    def passed(self) -> bool:
        """Whether every law holds."""
        return all(law.passed for law in self.laws)

    def raise_if_failed(self) -> None:
        """Raises an `AssertionError` with the table unless every law holds."""
        if not self.passed:
            slopes = f"\n{self.taylor}" if self.taylor is not None else ""
            raise AssertionError(f"{self}{slopes}")

    def __repr__(self) -> str:
        return text_representation(self, _description)


def _description(report: CheckReport) -> list[Block]:
    rows = [
        (f"{law.number}. {law.statement}", verdict(law.passed), law.detail)
        for law in report.laws
    ]
    return [Table((report.simulation, "", ""), rows, align="<")]


def check_simulation(
    simulation: Any,
    times: Numbers,
    method: Method | None = None,
    *,
    seed: int = 0,
) -> CheckReport:
    r"""Check that a simulation, yours or ours, obeys the laws below.

    ```python
    method = ds.Method(diffrax.Heun(), step=0.1)
    report = verify.check_simulation(problems.kaps(), 1.0, method)
    print(report)  # a line for each law
    report.raise_if_failed()
    ```

    1. Every float leaf, the epoch and the times have gradients: a Taylor test of each
       has slope 2 in forward and reverse mode, at frozen steps.
    2. jacfwd, jacrev and the four Hessians work on it and agree to 1e-10.
    3. A second value of any leaf compiles nothing new.
    4. float32 in gives float32 out, float64 in gives float64 out.
    5. jit = eager and vmap = loop, in values and gradients, to 1e-12.
    6. NaN in any leaf is a named failure, and touches no other member of a batch.

    **Arguments**

    - `simulation`: any `AbstractSimulation` with a field `t0` and a float array.
    - `times`: output times, as for `simulate`.
    - `method`: how; None takes `simulation.default_method()`. An adjoint that has only
        one mode fails law 2, as it says.
    - `seed`: of directions and neighbors.

    **Returns:** `CheckReport`, with `.passed`, `.laws`, `.taylor`,
    `.raise_if_failed()`, and a line a law when printed, which says what a simulation
    raised on the way.

    **Good values:** a short run, tens of steps: laws 2 and 5 compare to rounding
    errors, which grow with the steps, and a chaotic run amplifies them. The cost is
    about fifteen compilations: 5 s at fixed steps, 25 s for an adaptive method on a
    2-core machine.

    **Raises:** `ValueError` for a simulation that the laws cannot vary, and whatever
    `simulate(simulation, times, method)` raises.
    """
    instance("simulation", simulation, AbstractSimulation, "nbody.NBody(bodies)")
    name, fields = type(simulation).__name__, dataclasses.fields(simulation)
    if not any(f.name == "t0" and not f.metadata.get("static") for f in fields):
        raise ValueError(
            f"{name} must have its epoch in a field, t0: float | jax.Array = 0.0, that "
            "is not static; as it is, nothing can move it"
        )
    if not Leaves.of(simulation).values:
        raise ValueError(
            f"{name} must have a float array that can vary, got fields without one; "
            "Python floats are compiled in, store jnp.asarray(...)"
        )
    case = Case.of(simulation, times, method, seed)
    taylor = None

    def live_leaves(case):
        nonlocal taylor
        finding, taylor = _simulation_checks.live_leaves(case)
        return finding

    def modes_agree(case):
        disagreement = float("nan") if taylor is None else taylor.disagreement
        return _simulation_checks.modes_agree(case, disagreement)

    table_of_laws = (
        ("every leaf has a gradient", live_leaves),
        ("all modes work and agree", modes_agree),
        ("values compile nothing new", _simulation_checks.compiles_once),
        ("precision is kept", _simulation_checks.precision_is_kept),
        ("jit = eager, vmap = loop", _simulation_checks.batches_agree),
        ("failures have names", _simulation_checks.failures_have_names),
    )
    laws = []
    for number, (statement, law) in enumerate(table_of_laws, start=1):
        try:
            finding = law(case)
        # Whatever a user's simulation raises breaks this law, and not the report.
        except Exception as error:
            finding = Finding(False, brief(error))
        laws.append(Check(number, statement, *finding))
    return CheckReport(name, tuple(laws), taylor)
