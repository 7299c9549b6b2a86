"""Ask Minuit (iminuit) for MINOS intervals, HESSE errors and contours of four fits.

    pip install iminuit scipy; python tools/peers/make_iminuit.py

Everything is found again by SciPy, the intervals as roots of the profile, and how far
both differ is written beside it, so that a test knows how much the numbers can bear.
"""

import numpy as np
from _minos_problems import PROBLEMS
from _record import write
from iminuit import Minuit
from scipy.differentiate import hessian
from scipy.optimize import brentq, least_squares
from scipy.stats import chi2


CONTOUR_LEVEL, CONTOUR_POINTS = 0.6827, 24
TOLERANCES = (1e-1, 1e-3, 1e-5, 1e-7)


def minuit(problem: dict, tol: float) -> Minuit:
    """The fit at strategy 2, with HESSE and MINOS; gradients are differences."""
    errordef = problem["errordef"]

    def objective(theta):
        return errordef * np.sum(problem["residuals"](theta) ** 2)

    fit = Minuit(objective, problem["start"], name=problem["parameters"])
    fit.errordef, fit.strategy, fit.tol = errordef, 2, tol
    fit.migrad(ncall=20000)
    fit.hesse()
    fit.minos()
    assert fit.valid and all(error.is_valid for error in fit.merrors.values()), fit
    return fit


def minos(fit: Minuit) -> np.ndarray:
    """Lower errors, negative, in the first row and upper ones in the second."""
    return np.array([[e.lower, e.upper] for e in fit.merrors.values()]).T


def profile(problem: dict, fixed: dict[int, float], guess) -> tuple[float, np.ndarray]:
    """χ², minimized over the parameters that are not fixed, and where that is."""
    full = np.array(guess, float)
    full[list(fixed)] = list(fixed.values())
    free = [i for i in range(full.size) if i not in fixed]

    def residuals(some):
        full[free] = some
        return problem["residuals"](full)

    if not free:
        return float(np.sum(residuals([]) ** 2)), full
    tight = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-14)
    best = least_squares(residuals, full[free], "3-point", x_scale="jac", **tight)
    full[free] = best.x
    return 2 * best.cost, full


def crossing(problem: dict, lowest: float, best, index: int, error: float) -> float:
    """The signed distance at which the profile is 1 above the minimum."""
    near = {"theta": best}

    def excess(step):
        fixed = {index: best[index] + step}
        value, near["theta"] = profile(problem, fixed, near["theta"])
        return value - lowest - 1

    return brentq(excess, 0.9 * error, 1.1 * error, xtol=1e-9 * abs(error))


def covariance(problem: dict, best, errors) -> np.ndarray:
    """Twice the inverse of all second derivatives of χ², not of Gauss and Newton's."""

    def chi_squared(steps):
        theta = best + steps * errors
        return np.sum(problem["residuals"](theta) ** 2)

    def along_first_axis(steps):
        return np.apply_along_axis(chi_squared, 0, steps)

    options = {"initial_step": 0.2, "tolerances": {"rtol": 1e-8}}
    curvature = hessian(along_first_axis, np.zeros(len(best)), **options).ddf
    scaled = 2 * np.linalg.inv(curvature) * np.outer(errors, errors)
    return (scaled + scaled.T) / 2


def scipy_reference(problem: dict, fit: Minuit) -> dict:
    """The same numbers without Minuit, to more digits than it aims at."""
    lowest, best = profile(problem, {}, fit.values)
    lower, upper = (
        np.array([crossing(problem, lowest, best, i, e) for i, e in enumerate(row)])
        for row in minos(fit)
    )
    return {
        "how": "least_squares to 1e-14, brentq on its profile, differentiate.hessian",
        "values": best,
        "minimum": problem["errordef"] * lowest,
        "covariance": covariance(problem, best, np.array(fit.errors)),
        "minos_lower": lower,
        "minos_upper": upper,
    }


def accuracy(fits: dict[float, Minuit], reference: dict) -> dict:
    """How far MINOS moves as `tol` falls, and how far all is from SciPy."""
    *looser, tightest = fits.values()
    last, errors = minos(tightest), np.sqrt(np.diag(reference["covariance"]))
    roots = np.array([reference["minos_lower"], reference["minos_upper"]])
    moved = (np.array(tightest.values) - reference["values"]) / errors
    scaled = (tightest.covariance - reference["covariance"]) / np.outer(errors, errors)
    return {
        "tol": list(fits)[:-1],
        "relative_change_of_minos_from_tol_to_last": [
            np.max(np.abs(minos(fit) / last - 1)) for fit in looser
        ],
        "minos_relative_to_scipy": np.max(np.abs(last / roots - 1)),
        "values_to_scipy_in_errors": np.max(np.abs(moved)),
        "covariance_to_scipy_in_errors": np.max(np.abs(scaled)),
    }


def contour(problem: dict, fit: Minuit, reference: dict) -> dict:
    """Points of iminuit's two-dimensional contour, and the profile's Δχ² at each.

    Minuit's own MnContours finds no second pair of points on the banana; iminuit's
    experimental algorithm takes both.
    """
    names = problem["contour"]
    options = {"cl": CONTOUR_LEVEL, "size": CONTOUR_POINTS, "experimental": True}
    points = fit.mncontour(*names, **options)[:-1]
    lowest = reference["minimum"] / problem["errordef"]
    index = [problem["parameters"].index(name) for name in names]
    level = chi2.ppf(CONTOUR_LEVEL, 2)
    rises = [
        profile(problem, dict(zip(index, point, strict=True)), reference["values"])[0]
        for point in points
    ]
    return {
        "parameters": names,
        "cl": CONTOUR_LEVEL,
        "size": CONTOUR_POINTS,
        "delta_chi2": level,
        "points": points,
        "largest_error_of_delta_chi2": np.max(np.abs(rises - lowest - level)),
    }


def answer(name: str) -> dict:
    """All that Minuit says of one problem, and how far it can be trusted."""
    problem = PROBLEMS[name]()
    fits = {tol: minuit(problem, tol) for tol in TOLERANCES}
    fit = fits[TOLERANCES[-1]]
    lower, upper = minos(fit)
    reference = scipy_reference(problem, fit)
    record = {k: v for k, v in problem.items() if k not in ("residuals", "contour")}
    record |= {
        "tol": fit.tol,
        "strategy": 2,
        "values": np.array(fit.values),
        "minimum": fit.fval,
        "edm": fit.fmin.edm,
        "hesse_errors": np.array(fit.errors),
        "covariance": np.array(fit.covariance),
        "minos_lower": lower,
        "minos_upper": upper,
        "scipy": reference,
        "accuracy": accuracy(fits, reference),
    }
    if "contour" in problem:
        record["contour"] = contour(problem, fit, reference)
    return record


if __name__ == "__main__":
    write("iminuit", ("iminuit", "scipy"), {name: answer(name) for name in PROBLEMS})
