"""Ask derivkit for a Fisher matrix with C(θ) and for DALI's doublet tensors.

    pip install derivkit sympy; python tools/peers/make_derivkit.py

derivkit differentiates numerically; SymPy's derivatives of the same expressions stand
beside its answers, with the distance between both.
"""

import numpy as np
import sympy
from _record import digits, write
from derivkit import ForecastKit


# The default, "adaptive", is left out: minutes for the doublet, to three parts in 10⁶.
METHODS = {
    "five_points": {"method": "finite", "stepsize": 1e-2, "num_points": 5},
    "ridders": {
        "method": "finite",
        "stepsize": 1e-2,
        "num_points": 5,
        "extrapolation": "ridders",
        "levels": 4,
    },
    "nine_points": {"method": "finite", "stepsize": 2e-2, "num_points": 9},
}
CHOSEN = "nine_points"


def fisher_problem() -> tuple[dict, sympy.Matrix, sympy.Matrix]:
    """A decaying signal whose correlated noise depends on the same parameters."""
    a, k, s = sympy.symbols("a k s")
    t = digits(np.sort(np.random.default_rng(9).uniform(0.0, 3.0, 10)))
    mean = sympy.Matrix([a * sympy.exp(-k * x) for x in t])

    def element(i, j):
        lag = abs(t[i] - t[j])
        white = (0.3 + 0.1 * a) ** 2 if i == j else 0
        return s**2 * sympy.exp(-(lag**2) / 2) * sympy.cos(k * lag / 2) + white

    covariance = sympy.Matrix(10, 10, lambda i, j: element(int(i), int(j)))
    record = {
        "formula": "mu_i = a exp(-k t_i);"
        " C_ij = s^2 exp(-(t_i - t_j)^2 / 2) cos(k |t_i - t_j| / 2)"
        " + (0.3 + 0.1 a)^2 delta_ij;"
        " F_ab = mu_a' C^-1 mu_b + tr(C^-1 C_a C^-1 C_b) / 2",
        "parameters": ["a", "k", "s"],
        "theta": [2.0, 0.9, 0.5],
        "data": {"t": t},
    }
    return record, mean, covariance


def dali_problem() -> tuple[dict, sympy.Matrix, sympy.Matrix]:
    """A decaying wave under correlated noise that does not depend on the parameters."""
    a, k, w = sympy.symbols("a k w")
    t = digits(np.linspace(0.2, 4.0, 12))
    mean = sympy.Matrix([a * sympy.exp(-k * x) * sympy.sin(w * x) for x in t])
    lags = t[:, None] - t
    covariance = digits(0.04 * np.exp(-np.abs(lags)) + 0.01 * np.eye(t.size))
    record = {
        "formula": "mu_i = a exp(-k t_i) sin(w t_i)",
        "parameters": ["a", "k", "w"],
        "theta": [1.5, 0.4, 2.2],
        "data": {"t": t, "covariance": covariance},
    }
    return record, mean, sympy.Matrix(covariance)


def numeric(record: dict, expression):
    """A function of θ that returns floats: a vector, or a matrix that is none."""
    function = sympy.lambdify(sympy.symbols(record["parameters"]), expression)

    def evaluate(theta):
        return np.squeeze(np.array(function(*theta), float))

    return evaluate


def derivatives(record: dict, expression, order: int) -> np.ndarray:
    """SymPy's derivatives at θ; the new axes come first."""
    symbols = sympy.symbols(record["parameters"])
    if order == 0:
        return numeric(record, expression)(record["theta"])
    return np.array(
        [derivatives(record, expression.diff(s), order - 1) for s in symbols]
    )


def compare(answers: dict[str, np.ndarray], exact: np.ndarray) -> dict[str, float]:
    """Largest difference of each method, relative to the largest element."""
    return {
        name: np.max(np.abs(answer - exact)) / np.max(np.abs(exact))
        for name, answer in answers.items()
    }


def fisher() -> dict:
    """Both terms of the matrix: of the mean and of the covariance."""
    record, mean, covariance = fisher_problem()
    kit = ForecastKit(
        function=numeric(record, mean),
        theta0=np.array(record["theta"]),
        cov=numeric(record, covariance),
    )
    answers = {name: kit.gaussian_fisher(**o) for name, o in METHODS.items()}
    slopes, matrix = derivatives(record, mean, 1), derivatives(record, covariance, 0)
    inverse = np.linalg.inv(matrix)
    turned = inverse @ derivatives(record, covariance, 1)
    of_covariance = np.einsum("aij,bji->ab", turned, turned) / 2
    exact = slopes @ inverse @ slopes.T + of_covariance
    return record | {
        "derivkit_method": METHODS[CHOSEN],
        "fisher": answers[CHOSEN],
        "sympy": {"fisher": exact, "term_of_the_covariance": of_covariance},
        "difference_by_method": compare(answers, exact),
    }


def dali() -> dict:
    """The doublet, as contractions and as derivkit symmetrizes them by default."""
    record, mean, covariance = dali_problem()
    inverse = np.linalg.inv(np.array(covariance, float))
    kit = ForecastKit(
        function=numeric(record, mean),
        theta0=np.array(record["theta"]),
        cov=np.array(covariance, float),
    )
    first, second = (derivatives(record, mean, order) for order in (1, 2))
    exact = {
        "fisher": np.einsum("ai,ij,bj->ab", first, inverse, first),
        "D_21": np.einsum("abi,ij,cj->abc", second, inverse, first),
        "D_22": np.einsum("abi,ij,cdj->abcd", second, inverse, second),
    }
    raw, symmetric = (
        {name: doublet(kit, options, symmetrize) for name, options in METHODS.items()}
        for symmetrize in (False, True)
    )
    return record | {
        "index_order": "D_21[a,b,c] = mu_ab' C^-1 mu_c,"
        " D_22[a,b,c,d] = mu_ab' C^-1 mu_cd, no further factor;"
        " symmetrized: the mean over all permutations of the indices",
        "expansion": "-2 ln L = F d d + D_21 d d d + D_22 d d d d / 4,"
        " d = theta - theta0",
        "derivkit_method": METHODS[CHOSEN],
        **raw[CHOSEN],
        "symmetrized": symmetric[CHOSEN],
        "sympy": exact,
        "difference_by_method": {
            key: compare({name: raw[name][key] for name in METHODS}, exact[key])
            for key in exact
        },
    }


def doublet(kit: ForecastKit, options: dict, symmetrize: bool) -> dict[str, np.ndarray]:
    """Fisher's matrix and the two tensors of the second order."""
    tensors = kit.dali(forecast_order=2, symmetrize=symmetrize, **options)
    return {"fisher": tensors[1][0], "D_21": tensors[2][0], "D_22": tensors[2][1]}


if __name__ == "__main__":
    problems = {"fisher_with_covariance_of_theta": fisher(), "dali_doublet": dali()}
    write("derivkit", ("derivkit", "sympy"), problems)
