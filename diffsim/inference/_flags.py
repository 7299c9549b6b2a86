"""Warnings about a fit whose error bars should not be believed as they stand."""

from typing import Any

import numpy as np


#: Standard deviations of the reduced chi2 that nothing but a misfit explains.
_MISSED = 10

#: Share of an error bar that the error of the simulation may take unnoticed: added in
#: quadrature, 0.3 widens it by 5 %.
_MUCH = 0.3


def flags_of(fit: Any) -> dict[str, str]:
    """A clause for each thing that is to be known, by its keyword."""
    found = {
        "undetermined": _undetermined(fit),
        "solver_error": _solver_error(fit),
        "at_bound": _at_bound(fit),
        "misfit": _misfit(fit),
    }
    return {keyword: clause for keyword, clause in found.items() if clause}


def _named(fit: Any, which: Any) -> str:
    names = [name for name, here in zip(fit.names, which, strict=True) if here]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" * (len(names) > 6))


def _undetermined(fit: Any) -> str:
    which = np.asarray(fit.undetermined)
    if not np.any(which):
        return ""
    return f"the data do not determine {_named(fit, which)}"


def _solver_error(fit: Any) -> str:
    error = np.asarray(fit.solver_error)
    if np.any(np.isinf(error)):
        return "the error of the simulation is unknown, which failed at finer steps"
    if not np.any(error > _MUCH):
        return ""
    worst = int(np.nanargmax(error))
    return (
        f"the error of the simulation is {error[worst]:.2g} sigma in "
        f"{fit.names[worst]}; take a smaller step or tolerance"
    )


def _at_bound(fit: Any) -> str:
    which = np.asarray(fit.at_bound)
    return f"{_named(fit, which)} ended at a bound" if np.any(which) else ""


def _misfit(fit: Any) -> str:
    """A minimum that does not describe the data, by the sigma that was given."""
    dof = int(fit.dof)
    if dof <= 0 or not fit.convention.startswith("sigma given"):
        return ""
    spread = np.sqrt(2 / dof)
    if not float(fit.chi2_reduced) > 1 + _MISSED * spread:
        return ""
    return f"the model misses the data: reduced chi2 would be 1 ± {spread:.2g}"
