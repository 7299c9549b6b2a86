"""The report of a fit: everything a referee asks, in one page of text."""

from typing import Any

import numpy as np

from .._results import RESULTS
from .._text_table import MOST_ROWS, Block, Table, and_more


#: Parameters up to which a representation looks for directions, which takes n³: 10 ms.
MOST_PARAMETERS = 200

#: A shift of a tenth of an error bar, added in quadrature, would widen it by 0.5 %.
_MUCH = 0.1


def report(fit: Any) -> list[Block]:
    """Report of a fit, as `print(fit)` shows it."""
    check_alone("fit", fit.chi2.shape)
    blocks = [_headline(fit), _misfit(fit), _table(fit), _tied(fit)]
    if fit.fisher is not None and len(fit.names) <= MOST_PARAMETERS:
        blocks += [_correlations(fit), _weakest(fit)]
    elif fit.fisher is not None:
        blocks += ["Weakest directions: of so many, fit.fisher.degeneracies() has them"]
    blocks += [_convergence(fit), _solver_error(fit), _error_bars(fit)]
    if "starts_loss" in fit.history:
        blocks.append(_waterfall(fit))
    return blocks


def check_alone(name: str, shape: tuple[int, ...]):
    """Refuse a batch, as `vmap` makes it, where one is shown."""
    if shape:
        raise ValueError(
            f"{name} must be one, got a batch of shape {shape}; take one of them by "
            f"jax.tree.map(lambda x: x[0], {name})"
        )


def count_noun(count: int, one: str, several: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {one if count == 1 else several}"


def _headline(fit: Any) -> str:
    parameters = count_noun(len(fit.names), "parameter", "parameters")
    data = count_noun(int(fit.size), "datum", "data")
    freedom = count_noun(int(fit.dof), "degree", "degrees")
    return (
        f"Fit of {parameters} to {data}: {_sentence(fit)}\n"
        f"  {_distance(fit)} ({freedom} of freedom), AIC {float(fit.aic):.6g}, "
        f"BIC {float(fit.bic):.6g}"
    )


def _distance(fit: Any) -> str:
    """How far the data are; a sigma that they chose themselves judges no fit."""
    if fit.convention.startswith("by the log_prob"):
        return f"ln L {float(fit.log_prob):.6g}"
    total = f"{float(fit.chi2):.6g}"
    if fit.convention.startswith("sigma unknown"):
        sigma = float(fit.sigma_scale)
        return f"RSS {total}" + (f", sigma {sigma:.4g}" if np.isfinite(sigma) else "")
    if fit.convention.startswith("sigma known up to"):
        return f"chi2 {total} by relative sigma, which is {float(fit.sigma_scale):.4g}"
    if fit.convention.startswith("sigma from"):
        return f"chi2 {total} by the sigma of the noise model"
    reduced = f", reduced {float(fit.chi2_reduced):.4g}" if int(fit.dof) > 0 else ""
    return f"chi2 {total}{reduced}"


def _misfit(fit: Any) -> str:
    clause = fit.flags.get("misfit", "")
    if not clause:
        return ""
    return (
        f"  {clause[0].upper()}{clause[1:]}. Try another start (fit(..., starts=8)), "
        "another model or a larger sigma; the error bars below are those of a model "
        "that fits."
    )


def _sentence(fit: Any) -> str:
    """How it ended, and what error bars are worth.

    What Optimistix says of too few steps knows nothing of `FitOptions`.
    """
    if fit.status == RESULTS.nonlinear_max_steps_reached:
        steps = count_noun(int(fit.steps), "step", "steps")
        return (
            f"stopped after {steps}, before it converged; allow more by "
            "fit(..., options=inference.FitOptions(max_steps=...)), or try another "
            "start"
        )
    flags = fit.flags
    if fit.status == RESULTS.no_progress and "misfit" in flags:
        return (
            "stuck, and not at an optimum that describes the data: no step lowered the "
            "objective, and a Gauss-Newton step would go "
            f"{float(fit.remaining_sigma):.2g} error bars. Begin elsewhere, from "
            "several starts (fit(..., starts=8)), or with Free(scale=...) for badly "
            "scaled parameters"
        )
    if fit.status != RESULTS.successful:
        at = f" ({fit.culprit}, at the start)" if fit.culprit else ""
        return RESULTS[fit.status] + at
    doubts = [flags[name] for name in ("undetermined", "solver_error") if name in flags]
    return ", but ".join(["converged", *[" and ".join(doubts)][: len(doubts)]])


def _table(fit: Any) -> Table:
    header = ("parameter", "value", "stderr", "relative", "start", "bounds", "")
    shown = min(len(fit.names), MOST_ROWS)
    rows = [header, *(_row(fit, i) for i in range(shown))]
    if not np.any(np.isfinite([fit.lower, fit.upper])):
        rows = [(*row[:5], row[6]) for row in rows]
    align = "<" + ">" * (len(rows[0]) - 2) + "<"
    return Table(rows[0], rows[1:], align, "  ", len(fit.names) - shown)


def _row(fit: Any, i: int) -> tuple[str, ...]:
    value, sd = float(fit.values[i]), float(fit.stderr[i])
    lower, upper = float(fit.lower[i]), float(fit.upper[i])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = 100 * sd / np.abs(value)
    bounded = np.isfinite(lower) or np.isfinite(upper)
    unit = f" [{fit.units[i]}]" if fit.units[i] else ""
    return (
        fit.names[i] + unit,
        _round_to_error(value, sd),
        f"{sd:.2g}" if np.isfinite(sd) else ("inf" if np.isinf(sd) else "-"),
        f"{relative:.2g} %" if np.isfinite(relative) else "-",
        f"{float(fit.start[i]):.6g}",
        f"[{lower:g}, {upper:g}{')' if i in fit.circular else ']'}" if bounded else "",
        _flag(fit, i),
    )


def _flag(fit: Any, i: int) -> str:
    if bool(fit.at_bound[i]):
        if not np.any(np.isfinite([fit.lower[i], fit.upper[i]])):
            return "at the end of its range"
        lower = abs(fit.values[i] - fit.lower[i]) <= abs(fit.values[i] - fit.upper[i])
        return f"at its {'lower' if lower else 'upper'} bound"
    other = partner(fit, i)
    if bool(fit.undetermined[i]):
        if other == fit.names[i]:
            return "undetermined: no effect"
        return "undetermined" + (f", degenerate with {other}" if other else "")
    return f"degenerate with {other}" if other else ""


def _round_to_error(value: float, sd: float) -> str:
    """The value to two digits beyond its error bar."""
    if not (np.isfinite(sd) and sd > 0 and value):
        return f"{value:.8g}"
    digits = int(np.floor(np.log10(abs(value)))) - int(np.floor(np.log10(sd)))
    return f"{value:.{min(max(digits + 3, 3), 17)}g}"


def _correlations(fit: Any) -> str:
    matrix = np.asarray(fit.correlation)
    i, j = np.triu_indices(len(fit.names), k=1)
    size = np.abs(matrix[i, j])
    order = [k for k in np.argsort(-size, kind="stable") if size[k] > 0.1]
    if not order:
        return ""
    pairs = [
        f"  {matrix[i[k], j[k]]:+.3f}  {fit.names[i[k]]}, {fit.names[j[k]]}"
        for k in order[:MOST_ROWS]
    ]
    rest = len(order) - MOST_ROWS
    more = [f"  and {rest} more, in fit.correlation"] if rest > 0 else []
    return "\n".join(["Correlations above 0.1:", *pairs, *more])


def _weakest(fit: Any) -> str:
    found = open_degeneracies(fit, above=0.0)
    open_ones = [d for d in found if np.isinf(d.inflation)]
    if not found:
        return ""
    if open_ones:
        lines = [f"  {d}" for d in open_ones[:MOST_ROWS]]
        rest = len(open_ones) - MOST_ROWS
        lines += [f"  {and_more(rest)}"] if rest > 0 else []
        return "\n".join(["Undetermined directions (sigma = inf):", *lines])
    if len(found) == 1:
        return ""
    return (
        f"Weakest direction: {found[0]}, {found[0].inflation:.3g} times less certain "
        "than its parameters alone"
    )


def _convergence(fit: Any) -> str:
    sigma, distance = float(fit.remaining_sigma), ""
    if not np.isnan(sigma):
        distance = f"a further step would move {sigma:.1e} sigma; "
    return (
        f"Convergence: {distance}{count_noun(int(fit.steps), 'step', 'steps')}, "
        f"{int(fit.rejected)} rejected, {int(fit.non_finite)} not finite"
    )


def _solver_error(fit: Any) -> str:
    error = np.asarray(fit.solver_error)
    if np.all(np.isnan(error)):
        return ""
    if np.any(np.isinf(error)):
        return "Solver error: unknown, the simulation failed at finer steps"
    worst = int(np.nanargmax(error))
    advice = "; take a smaller step or tolerance" if error[worst] > _MUCH else ""
    return (
        "Solver error: finer steps would move no value by more than "
        f"{error[worst]:.1e} sigma ({fit.names[worst]}){advice}"
    )


def fisher_solver_error(fisher: Any) -> str:
    """Lines on the change of a Fisher matrix by finer steps, if that was asked."""
    if fisher.refined is None:
        return ""
    if fisher.refined.status != RESULTS.successful:
        return "Solver error: unknown, the simulation failed at finer steps"
    change, moved = (
        np.asarray(x) for x in (fisher.error_estimate, fisher.solver_error)
    )
    if np.all(np.isnan(change)):
        return "Solver error: none, no step in predict can be made finer"
    shift, worst = "", int(np.nanargmax(change))
    if not np.all(np.isnan(moved)):
        most = int(np.nanargmax(moved))
        shift = (
            f" and move no best value by more than {moved[most]:.1e} sigma "
            f"({fisher.names[most]})"
        )
    much = max(change[worst], np.max(moved, initial=0, where=~np.isnan(moved))) > _MUCH
    advice = "; take a smaller step or tolerance" if much else ""
    return (
        "Solver error: finer steps would change no standard deviation by more than "
        f"{change[worst]:.1e} of it ({fisher.names[worst]}){shift}{advice}"
    )


def _error_bars(fit: Any) -> str:
    if np.isnan(fit.sigma_scale) and int(fit.dof) <= 0:
        return (
            "Error bars: none, for sigma is unknown and there are no more data than "
            "parameters to tell it; give Gaussian(sigma)."
        )
    if fit.status != RESULTS.successful:
        return (
            "Error bars: those of the place where the search ended, which is no "
            "optimum; do not quote them."
        )
    curvature = "" if fit.fisher is None else _CURVATURE.get(fit.fisher.kind, "")
    large = "" if curvature or "misfit" not in fit.flags else _LARGE_RESIDUALS
    if not curvature and fit.convention.startswith(("by ", "sigma from")):
        large = _FEW_DATA
    return f"Error bars: {fit.convention}{curvature}.{large}"


_CURVATURE = {"observed": "; by the full second derivative (observed information)"}
_FEW_DATA = (
    " They are those of many data (expected information): of few, fit.observed() and "
    "fit.profile(name) may differ."
)
_LARGE_RESIDUALS = (
    " Residuals are large: those of the full second derivative may differ, "
    "fit(..., options=inference.FitOptions(observed=True))."
)


def _tied(fit: Any) -> Table | str:
    """Parameters that follow others, with their error bars."""
    if not fit.tied_names:
        return ""
    rows = [
        (name, _round_to_error(float(value), float(sd)), f"{float(sd):.2g}", "tied")
        for name, value, sd in zip(
            fit.tied_names, fit.tied_values, fit.tied_stderr, strict=True
        )
    ]
    shown = rows[:MOST_ROWS]
    return Table((), shown, "<>>", "  ", len(rows) - len(shown))


def _waterfall(fit: Any) -> str:
    loss = np.asarray(fit.history["starts_loss"])
    good = np.asarray(fit.history["starts_converged"])
    near = np.sum(good & (loss <= loss[0] + 0.01 * max(abs(loss[0]), 1)))
    text = (
        f"Starts: {loss.size}, of which {int(good.sum())} converged, {int(near)} to "
        "within a hundredth of the best loss (fit.history['starts_loss'])"
    )
    optima = fit.optima
    if len(optima) < 2:
        return text
    listed = ", ".join(
        f"loss {float(one.loss):.6g} ({count_noun(one.count, 'start', 'starts')})"
        for one in optima[:4]
    )
    more = f" and {len(optima) - 4} more" if len(optima) > 4 else ""
    return f"{text}; distinct optima: {listed}{more} (fit.optima)"


#: What an information is, by its kind.
KINDS = {
    "expected": "expected information",
    "observed": "observed information: the curvature on real data",
}


def fisher_report(fisher: Any) -> list[Block]:
    """Report of an information matrix, as `print(fisher)` shows it."""
    check_alone("fisher", fisher.root.shape[:-2])
    count, what = len(fisher.names), KINDS.get(fisher.kind, fisher.kind)
    headline = f"Fisher({count_noun(count, 'parameter', 'parameters')}, {what})"
    if fisher.status != RESULTS.successful:
        return [headline, RESULTS[fisher.status]]
    if count > MOST_PARAMETERS:
        return [headline, "standard deviations: of so many, .stderr has them"]
    pairs = list(zip(fisher.names, np.asarray(fisher.stderr).tolist(), strict=True))
    rows = [(name, f"{stderr:.6g}") for name, stderr in pairs[:MOST_ROWS]]
    table = Table((), rows, "<", "  ", max(0, count - MOST_ROWS))
    lost = [found for found in fisher.degeneracies() if np.isinf(found.inflation)]
    weak = [f"undetermined: {found}" for found in lost[:MOST_ROWS]]
    weak += [and_more(len(lost) - MOST_ROWS)] if len(lost) > MOST_ROWS else []
    below = [fisher_solver_error(fisher), _sampling(fisher)]
    return [headline, "standard deviations", table, *weak, *below]


def _sampling(fisher: Any) -> str:
    """How far a sampled information leaves error bars uncertain."""
    if fisher.sampling_error is None:
        return ""
    worst = float(np.nanmax(np.asarray(fisher.sampling_error)))
    if np.isinf(worst):
        return (
            "Sampled: error bars are unknown, for no sample had events that would tell "
            "most; take more samples, or kind='expected' where it has a formula"
        )
    return f"Sampled: error bars are uncertain by {100 * worst:.2g} % at most"


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
    """A clause about the error bars by its keyword."""
    undetermined, at_bound = np.asarray(fit.undetermined), np.asarray(fit.at_bound)
    partners = [partner(fit, i) for i in range(len(fit.names))]
    pairs = list(zip(fit.names, partners, strict=True))
    no_effect = np.array([name == other for name, other in pairs], bool)
    degenerate = {tuple(sorted(pair)) for pair in pairs if pair[1] not in ("", pair[0])}
    listed = [f"{name} from {other}" for name, other in sorted(degenerate)[:6]]
    clauses = {
        "undetermined": undetermined.any()
        and f"the data do not determine {_name_list(fit, undetermined)}",
        "solver_error": _solver_error_warning(fit),
        "at_bound": at_bound.any() and f"{_name_list(fit, at_bound)} ended at a bound",
        "no_effect": no_effect.any()
        and f"the prediction does not depend on {_name_list(fit, no_effect)}",
        "degenerate": listed and f"the data hardly tell {', '.join(listed)}",
        "misfit": _misfit_warning(fit),
    }
    return {keyword: str(clause) for keyword, clause in clauses.items() if clause}


def _name_list(fit: Any, which: Any) -> str:
    names = [name for name, here in zip(fit.names, which, strict=True) if here]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" * (len(names) > 6))


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
