"""Ask pyhf for limits of a counting experiment, without and with uncertain background.

    pip install pyhf iminuit; python tools/peers/make_pyhf.py

Minuit gives the error bars, SciPy all other fits, as Minuit refuses those without a
free parameter. Those errors are 0.3 % off the second derivatives, as Minuit maps mu's
bounds, 0 and 10, to infinity. The background is profiled once more in closed form, so
that the JSON says how far the numbers are from the asymptotic formulas themselves.
"""

import numpy as np
import pyhf
from _record import write
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import norm


SIGNAL, BACKGROUND, UNCERTAINTY, OBSERVED = 10.0, 5.0, 1.0, 12.0
LEVEL = 0.05
MINUIT = pyhf.optimize.minuit_optimizer(tolerance=1e-8, strategy=2)
SCIPY = pyhf.optimize.scipy_optimizer(tolerance=1e-14)


def without_uncertainty() -> pyhf.Model:
    """One Poisson count with a known background."""
    signal = {"name": "mu", "type": "normfactor", "data": None}
    samples = [
        {"name": "signal", "data": [SIGNAL], "modifiers": [signal]},
        {"name": "background", "data": [BACKGROUND], "modifiers": []},
    ]
    return pyhf.Model({"channels": [{"name": "singlechannel", "samples": samples}]})


def with_uncertainty() -> pyhf.Model:
    """The same with an auxiliary Poisson count that constrains the background."""
    return pyhf.simplemodels.uncorrelated_background(
        signal=[SIGNAL], bkg=[BACKGROUND], bkg_uncertainty=[UNCERTAINTY]
    )


def twice_nll(mu: float, aux: float | None, count=OBSERVED, auxcount=None) -> float:
    """Minus twice the log-likelihood, its background factor profiled in closed form."""

    def log_poisson(n, rate):
        return n * np.log(rate) - rate - gammaln(n + 1)

    if aux is None:
        return -2 * log_poisson(count, mu * SIGNAL + BACKGROUND)
    auxcount = aux if auxcount is None else auxcount
    s, b = mu * SIGNAL, BACKGROUND
    # The derivative by gamma, times (s + b gamma) gamma: a gamma^2 + h gamma + c = 0.
    a, c = -b * (b + aux), auxcount * s
    h = b * (count + auxcount) - s * (b + aux)
    gamma = (-h - np.sqrt(h**2 - 4 * a * c)) / (2 * a)
    return -2 * (log_poisson(count, s + b * gamma) + log_poisson(auxcount, aux * gamma))


def closed_form(mu: float, aux: float | None) -> float:
    """CLs with the asymptotic distributions of q̃ (arXiv:1007.1727)."""
    best = (OBSERVED - BACKGROUND) / SIGNAL
    q = max(twice_nll(mu, aux) - twice_nll(best, aux), 0.0) if mu > best else 0.0
    # Asimov's data: no signal, the background's factor where it fits best for mu = 0.
    gamma = 1.0 if aux is None else (OBSERVED + aux) / (BACKGROUND + aux)
    asimov = {"count": BACKGROUND * gamma, "auxcount": aux and aux * gamma}
    root_a = np.sqrt(twice_nll(mu, aux, **asimov) - twice_nll(0.0, aux, **asimov))
    root = np.sqrt(q)
    both, background = norm.sf(root), norm.sf(root - root_a)
    if root > root_a:
        both = norm.sf((q + root_a**2) / (2 * root_a))
        background = norm.sf((q - root_a**2) / (2 * root_a))
    return float(both / background)


def fits(model: pyhf.Model, data: list[float]) -> dict:
    """Best fit, its errors, and the likelihood at it and at fixed strengths.

    Leaves SciPy's optimizer set.
    """
    pyhf.set_backend("numpy", MINUIT)
    best, lowest = pyhf.infer.mle.fit(
        data, model, return_uncertainties=True, return_fitted_val=True
    )
    pyhf.set_backend("numpy", SCIPY)
    at = {mu: pyhf.infer.mle.fixed_poi_fit(mu, data, model) for mu in (0.0, 1.0)}
    return {
        "parameters": model.config.par_names,
        "values": best[:, 0],
        "errors_by_hesse": best[:, 1],
        "twice_nll_at_best": float(lowest),
        "profile": {
            f"mu = {mu:g}": {
                "values": values,
                "twice_nll": pyhf.infer.mle.twice_nll(values, data, model).item(),
            }
            for mu, values in at.items()
        },
    }


def answer(model: pyhf.Model) -> dict:
    """One model's fit, CLs and limit, and what closed forms give for the same."""
    auxdata = model.config.auxdata
    data, aux = [OBSERVED, *auxdata], auxdata[0] if auxdata else None
    cls, tails, expected = pyhf.infer.hypotest(
        1.0, data, model, return_tail_probs=True, return_expected_set=True
    )
    upper, expected_upper = pyhf.infer.intervals.upper_limits.upper_limit(
        data, model, level=LEVEL, rtol=1e-10
    )
    values = np.array([(OBSERVED - BACKGROUND) / SIGNAL, 1.0, 0.0])
    likelihoods = [twice_nll(mu, aux) for mu in values]
    return {
        "data": {
            "signal": SIGNAL,
            "background": BACKGROUND,
            "uncertainty": UNCERTAINTY if auxdata else 0.0,
            "observed": OBSERVED,
            "auxdata": auxdata,
        },
        **fits(model, data),
        "test_statistic": "qtilde",
        "cls_at_mu_1": float(cls),
        "cl_sb_and_cl_b_at_mu_1": [float(tail) for tail in tails],
        "upper_limit_95": float(upper),
        "expected_for_background_alone": {
            "sigmas": [-2, -1, 0, 1, 2],
            "cls_at_mu_1": [float(value) for value in expected],
            "upper_limit_95": [float(value) for value in expected_upper],
        },
        "closed_form": {
            "error_of_mu_from_second_derivatives": float(
                np.sqrt(OBSERVED + (UNCERTAINTY**2 if auxdata else 0.0)) / SIGNAL
            ),
            "twice_nll_at_best_mu_1_mu_0": likelihoods,
            "cls_at_mu_1": closed_form(1.0, aux),
            "upper_limit_95": brentq(
                lambda mu: closed_form(mu, aux) - LEVEL, 0.8, 5.0, xtol=1e-13
            ),
        },
    }


FORMULAS = {
    "without_uncertainty": "P(n) = Pois(n | mu signal + background)",
    "with_uncertainty": "P(n, a) = Pois(n | mu signal + gamma background)"
    " Pois(a | gamma tau), tau = (background / uncertainty)^2 = auxdata[0]",
}
TWICE_NLL = "-2 ln P with all constants; ln Pois(n | r) = n ln r - r - ln Gamma(n + 1)"


def main():
    """Both models, each with its likelihood in words."""
    problems = {
        model.__name__: {
            "formula": FORMULAS[model.__name__],
            "twice_nll_is": TWICE_NLL,
            **answer(model()),
        }
        for model in (without_uncertainty, with_uncertainty)
    }
    write("pyhf", ("pyhf", "iminuit", "scipy"), problems)


if __name__ == "__main__":
    main()
