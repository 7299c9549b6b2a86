"""Ask lmfit for values, error bars and correlations of five fits.

    pip install lmfit; python tools/peers/make_lmfit.py

MINPACK gets tolerances of 1e-14 and derivatives by complex steps, which are exact to
rounding; with differences of its own the error bars would have some seven digits.
"""

import lmfit
import numpy as np
from _record import digits, write


def decaying_wave() -> dict:
    """Noise of unknown size: the covariance is scaled by the reduced χ²."""
    t, rng = digits(np.linspace(0.0, 12.0, 60)), np.random.default_rng(1)

    def predict(p):
        wave = np.cos(p["omega"] * t + p["phase"])
        return p["amplitude"] * np.exp(-p["decay"] * t) * wave + p["offset"]

    start = {"amplitude": 2.0, "decay": 0.15, "omega": 2.1, "phase": 0.4, "offset": 0.3}
    y = digits(predict(start) + 0.15 * rng.standard_normal(t.size))
    return {
        "formula": "y = amplitude exp(-decay t) cos(omega t + phase) + offset",
        "data": {"t": t, "y": y},
        "start": start,
        "predict": predict,
    }


def two_peaks() -> dict:
    """Two Gaussian peaks on a line, weights known up to a common factor."""
    x, rng = digits(np.linspace(0.0, 10.0, 80)), np.random.default_rng(2)

    def predict(p):
        peaks = sum(
            p[f"height{i}"] * np.exp(-(((x - p[f"center{i}"]) / p[f"width{i}"]) ** 2))
            for i in (1, 2)
        )
        return peaks + p["slope"] * x + p["intercept"]

    start = {"height1": 5.0, "center1": 3.0, "width1": 0.8}
    start |= {"height2": 3.0, "center2": 6.2, "width2": 1.3}
    start |= {"slope": 0.1, "intercept": 1.0}
    sigma = digits(1.0 + 0.1 * x)
    y = digits(predict(start) + 0.2 * sigma * rng.standard_normal(x.size))
    return {
        "formula": "y = sum_i height_i exp(-((x - center_i) / width_i)^2)"
        " + slope x + intercept",
        "data": {"x": x, "y": y, "sigma": sigma},
        "start": start,
        "predict": predict,
    }


def bounded() -> dict:
    """Bounds that hold at no optimum; lmfit fits transformed parameters within them."""
    x, rng = digits(np.linspace(0.5, 10.0, 30)), np.random.default_rng(3)

    def predict(p):
        return p["top"] * x / (p["half"] + x) + p["floor"]

    start = {"top": 4.0, "half": 2.0, "floor": 0.5}
    y = digits(predict(start) + 0.1 * rng.standard_normal(x.size))
    return {
        "formula": "y = top x / (half + x) + floor",
        "data": {"x": x, "y": y},
        "start": start,
        "bounds": {"top": [0.0, 20.0], "half": [0.0, None], "floor": [-1.0, 3.0]},
        "predict": predict,
    }


def tied() -> dict:
    """One parameter is twice another; its error bar follows from the other's."""
    t, rng = digits(np.linspace(0.0, 6.0, 40)), np.random.default_rng(4)

    def predict(p):
        return p["c"] * np.exp(-p["a"] * t) + p["d"] * np.exp(-p["b"] * t)

    start = {"a": 0.4, "c": 3.0, "d": -2.5}
    y = digits(predict({**start, "b": 0.8}) + 0.02 * rng.standard_normal(t.size))
    return {
        "formula": "y = c exp(-a t) + d exp(-b t)",
        "data": {"t": t, "y": y},
        "start": start,
        "expr": {"b": "2*a"},
        "tie": lambda p: {**p, "b": 2 * p["a"]},
        "predict": predict,
    }


def logistic() -> dict:
    """Growth with a known noise: the covariance is not scaled."""
    t, rng = digits(np.linspace(0.0, 15.0, 25)), np.random.default_rng(5)

    def predict(p):
        return p["capacity"] / (1 + np.exp(-p["rate"] * (t - p["midpoint"])))

    start = {"capacity": 10.0, "rate": 0.7, "midpoint": 6.0}
    sigma = 0.3
    y = digits(predict(start) + sigma * rng.standard_normal(t.size))
    return {
        "formula": "y = capacity / (1 + exp(-rate (t - midpoint)))",
        "data": {"t": t, "y": y, "sigma": sigma},
        "start": start,
        "scale_covar": False,
        "predict": predict,
    }


PROBLEMS = (decaying_wave, two_peaks, bounded, tied, logistic)


def parameters(problem: dict) -> lmfit.Parameters:
    """Start a little off the truth, inside the bounds."""
    params = lmfit.Parameters()
    for name, value in problem["start"].items():
        low, high = problem.get("bounds", {}).get(name, (None, None))
        params.add(name, value=1.05 * value, min=low, max=high)
    for name, expression in problem.get("expr", {}).items():
        params.add(name, expr=expression)
    return params


def jacobian(problem: dict, params: lmfit.Parameters) -> np.ndarray:
    """Derivatives of the residuals by the parameters that vary, by complex steps."""
    values, tie = params.valuesdict(), problem.get("tie", dict)
    plain = {name: values[name] for name in problem["start"]}
    steps = ({**plain, name: value + 1e-30j} for name, value in plain.items())
    columns = [np.imag(problem["predict"](tie(step))) / 1e-30 for step in steps]
    sigma = np.reshape(problem["data"].get("sigma", 1.0), (-1, 1))
    return np.array(columns).T / sigma


def minimize(problem: dict) -> lmfit.minimizer.MinimizerResult:
    """Levenberg and Marquardt's method in MINPACK, to the last digits."""
    data, tie = problem["data"], problem.get("tie", dict)
    y, sigma = data["y"], data.get("sigma", 1.0)

    def residuals(params):
        return (problem["predict"](tie(params.valuesdict())) - y) / sigma

    return lmfit.minimize(
        residuals,
        parameters(problem),
        scale_covar=problem.get("scale_covar", True),
        Dfun=lambda params: jacobian(problem, params),
        **dict.fromkeys(("ftol", "xtol", "gtol"), 1e-14),
    )


def accuracy(problem: dict, result) -> dict:
    """Distance from where J'r = 0, and of the covariance from (J'J)⁻¹."""
    slopes = jacobian(problem, result.params)
    factor = result.redchi if problem.get("scale_covar", True) else 1.0
    covariance = factor * np.linalg.inv(slopes.T @ slopes)
    errors = np.sqrt(np.diag(covariance))
    step = np.linalg.lstsq(slopes, result.residual)[0]
    scaled = (result.covar - covariance) / np.outer(errors, errors)
    return {
        "distance_of_values_to_optimum_in_errors": np.max(np.abs(step / errors)),
        "covariance_to_inverse_of_normal_matrix_in_errors": np.max(np.abs(scaled)),
    }


def answer(problem: dict) -> dict:
    """All that lmfit says of one problem."""
    result = minimize(problem)
    assert result.success, result.message
    errors = np.sqrt(np.diag(result.covar))
    record = {k: v for k, v in problem.items() if k not in ("predict", "tie")}
    return record | {
        "scale_covar": problem.get("scale_covar", True),
        "parameters": result.var_names,
        "values": {name: p.value for name, p in result.params.items()},
        "stderr": {name: p.stderr for name, p in result.params.items()},
        "correlation": result.covar / np.outer(errors, errors),
        "covariance": result.covar,
        "chisqr": result.chisqr,
        "redchi": result.redchi,
        "aic": result.aic,
        "bic": result.bic,
        "definitions": "redchi = chisqr / (N - k), aic = N ln(chisqr / N) + 2 k,"
        " bic = N ln(chisqr / N) + k ln(N), k the number of fitted parameters",
        "accuracy": accuracy(problem, result),
    }


if __name__ == "__main__":
    write("lmfit", ("lmfit", "scipy"), {p.__name__: answer(p()) for p in PROBLEMS})
