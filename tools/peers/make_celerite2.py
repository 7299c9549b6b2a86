"""Ask celerite2 for the log-likelihood of an oscillator plus a Matérn-3/2 process.

    pip install celerite2 mpmath; python tools/peers/make_celerite2.py

celerite2 replaces Matérn's kernel by k_eps, which is off by O(eps²); the dense sum of
the exact kernel stands beside it. Both are evaluated again with 50 digits.
"""

import celerite2
import mpmath
import numpy as np
from _record import digits, write


SHO = {"S0": 0.6, "w0": 1.7, "Q": 3.0}
MATERN = {"sigma": 0.9, "rho": 4.0}
MEAN, NOISE = 0.25, 0.3
EPSILONS = (1e-1, 1e-2, 1e-3)


def dense_kernel(tau, eps):
    """Covariance at a lag, of the process without its noise."""
    s0, w0, q = (mpmath.mpf(v) for v in SHO.values())
    eta = mpmath.sqrt(1 - 1 / (4 * q**2))
    phase = eta * w0 * tau
    wave = mpmath.cos(phase) + mpmath.sin(phase) / (2 * eta * q)
    return s0 * w0 * q * mpmath.exp(-w0 * tau / (2 * q)) * wave + matern32(tau, eps)


def matern32(tau, eps):
    """The exact kernel for `eps` = 0, celerite2's otherwise."""
    sigma, rho = (mpmath.mpf(v) for v in MATERN.values())
    rate = mpmath.sqrt(3) / rho
    if eps:
        factor = mpmath.cos(eps * tau) + rate / eps * mpmath.sin(eps * tau)
    else:
        factor = 1 + rate * tau
    return sigma**2 * mpmath.exp(-rate * tau) * factor


def dense_log_likelihood(t, y, eps=0) -> float:
    """-(r' C⁻¹ r + ln det C + N ln 2π) / 2 by Cholesky's factor with 50 digits."""
    count, times = len(t), [mpmath.mpf(v) for v in t]
    matrix = mpmath.matrix(count, count)
    for i, late in enumerate(times):
        for j, early in enumerate(times[: i + 1]):
            process = dense_kernel(late - early, mpmath.mpf(eps))
            matrix[i, j] = matrix[j, i] = process + (i == j) * mpmath.mpf(NOISE) ** 2
    rest = mpmath.matrix([mpmath.mpf(v) - mpmath.mpf(MEAN) for v in y])
    quadratic = (rest.T * mpmath.cholesky_solve(matrix, rest))[0]
    factor = mpmath.cholesky(matrix)
    log_det = 2 * sum(mpmath.log(factor[i, i]) for i in range(count))
    return float(-(quadratic + log_det + count * mpmath.log(2 * mpmath.pi)) / 2)


def celerite(t, eps: float) -> celerite2.GaussianProcess:
    """The process, factorized at the times."""
    kernel = celerite2.terms.SHOTerm(**SHO)
    kernel += celerite2.terms.Matern32Term(**MATERN, eps=eps)
    process = celerite2.GaussianProcess(kernel, mean=MEAN)
    process.compute(t, diag=np.full(t.size, NOISE**2))
    return process


def main():
    """Draw 200 irregular times and data from the process itself."""
    mpmath.mp.dps = 50
    rng = np.random.default_rng(6)
    t = digits(np.sort(rng.uniform(0.0, 60.0, 200)))
    draw = celerite(t, 1e-2).dot_tril(rng.standard_normal(t.size))
    y = digits(MEAN + draw)
    record = {
        "formula": "C(t, t') = k_SHO + k_Matern + noise^2 on the diagonal;"
        " k_SHO = S0 w0 Q exp(-w0 tau / 2 Q) (cos(eta w0 tau)"
        " + sin(eta w0 tau) / (2 eta Q)), eta = sqrt(1 - 1 / 4 Q^2);"
        " k_Matern = sigma^2 (1 + r tau) exp(-r tau), r = sqrt(3) / rho;"
        " k_eps = sigma^2 (cos(eps tau) + r sin(eps tau) / eps) exp(-r tau)",
        "log_likelihood_is": "-(r' C^-1 r + ln det C + N ln 2 pi) / 2, r = y - mean",
        "data": {"t": t, "y": y, "mean": MEAN, "noise": NOISE},
        "sho": SHO,
        "matern32": MATERN,
        "eps": EPSILONS,
        "log_likelihood": [celerite(t, e).log_likelihood(y) for e in EPSILONS],
        "dense_with_k_eps_50_digits": [dense_log_likelihood(t, y, e) for e in EPSILONS],
        "dense_with_exact_matern_50_digits": dense_log_likelihood(t, y),
    }
    write("celerite2", ("celerite2", "mpmath"), {"sho_and_matern32": record})


if __name__ == "__main__":
    main()
