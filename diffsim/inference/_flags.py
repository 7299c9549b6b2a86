"""Flags of a fit: what is to be known of its error bars."""

from typing import Any

import numpy as np


#: Parameters up to which partners are looked for, which takes n³.
_MOST_PARAMETERS = 200
#: A correlation by which two parameters are known 22 times worse than each alone.
_DEGENERATE = 0.999

#: Standard deviations of the reduced chi2 that nothing but a misfit explains.
_MISSED = 10

#: Share of an error bar that the error of the simulation may take unnoticed: added in
#: quadrature, 0.3 widens it by 5 %.
_UNNOTICED = 0.3


def flags_of(fit: Any) -> dict[str, str]:
    """A clause for each thing that is to be known, by its keyword."""
    found = {
        "undetermined": _undetermined(fit),
        "solver_error": _solver_error_warning(fit),
        "at_bound": _at_bound(fit),
        "no_effect": _no_effect(fit),
        "degenerate": _degenerate(fit),
        "misfit": _misfit_warning(fit),
    }
    return {keyword: clause for keyword, clause in found.items() if clause}


def _name_list(fit: Any, which: Any) -> str:
    names = [name for name, here in zip(fit.names, which, strict=True) if here]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" * (len(names) > 6))


def _undetermined(fit: Any) -> str:
    which = np.asarray(fit.undetermined)
    if not np.any(which):
        return ""
    return f"the data do not determine {_name_list(fit, which)}"


def _solver_error_warning(fit: Any) -> str:
    error = np.asarray(fit.solver_error)
    if np.any(np.isinf(error)):
        return "the error of the simulation is unknown, which failed at finer steps"
    if not np.any(error > _UNNOTICED):
        return ""
    worst = int(np.nanargmax(error))
    return (
        f"the error of the simulation is {error[worst]:.2g} sigma in "
        f"{fit.names[worst]}; take a smaller step or tolerance"
    )


def _at_bound(fit: Any) -> str:
    which = np.asarray(fit.at_bound)
    return f"{_name_list(fit, which)} ended at a bound" if np.any(which) else ""


def _misfit_warning(fit: Any) -> str:
    """A minimum that does not describe the data, by the sigma that was given."""
    varies = fit.convention.startswith("sigma from")
    # A noise model that is fitted, too, expects a chi2 of 1 for each datum.
    dof = int(fit.size if varies else fit.dof)
    if dof <= 0 or not fit.judges_misfit:
        return ""
    spread = np.sqrt(2 / dof)
    if not float(fit.chi2) / dof > 1 + _MISSED * spread:
        return ""
    return f"the model misses the data: reduced chi2 would be 1 ± {spread:.2g}"


def open_degeneracies(fit: Any, *, above: float) -> list[Any]:
    """Directions of the parameters that no bound holds; see `Fisher.degeneracies`."""
    held = [name for name, at in zip(fit.names, fit.at_bound, strict=True) if at]
    if len(held) == len(fit.names):
        return []
    fisher = fit.fisher.fix(held) if held else fit.fisher
    return list(fisher.degeneracies(above=above))


def partner(fit: Any, i: int) -> str:
    """With which parameter the data confuse parameter i; its own name for no effect."""
    held = np.asarray(fit.at_bound)
    if fit.fisher is None or len(fit.names) > _MOST_PARAMETERS or held[i]:
        return ""
    root = np.asarray(fit.fisher.root)
    if not np.any(root[:, i]) and fit.fisher.kind == "expected":
        return fit.names[i]
    if bool(fit.undetermined[i]):
        for found in open_degeneracies(fit, above=np.inf):
            others = [name for name in found.names if name != fit.names[i]]
            if fit.names[i] in found.names and others:
                return others[0]
        return ""
    row = np.abs(np.nan_to_num(np.asarray(fit.correlation)[i]))
    row[i] = 0
    other = int(np.argmax(row))
    return fit.names[other] if row[other] >= _DEGENERATE else ""


def _no_effect(fit: Any) -> str:
    names = [name for i, name in enumerate(fit.names) if partner(fit, i) == name]
    if not names:
        return ""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"the prediction does not depend on {', '.join(names[:6])}{more}"


def _degenerate(fit: Any) -> str:
    pairs = {
        tuple(sorted((name, other)))
        for i, name in enumerate(fit.names)
        if (other := partner(fit, i)) not in ("", name)
    }
    listed = [f"{one} from {other}" for one, other in sorted(pairs)[:6]]
    return f"the data hardly tell {', '.join(listed)}" if listed else ""
