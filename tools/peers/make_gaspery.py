"""Ask gaspery for the Fisher matrix of radial velocities under stellar noise.

    pip install gaspery jax tinygp astropy pandas matplotlib tqdm mpmath
    python tools/peers/make_gaspery.py

gaspery 0.3.0's own `cov_matrix` keeps only the last element of the quasi-periodic
kernel, so the kernel goes through its `cov_matrix_general`, built with tinygp.
gaspery adds 1e-6 to every element of the covariance, which is done here as well before
the same sum is evaluated with 50 digits.
"""

import jax
import mpmath
import numpy as np
from _record import digits, write
from gaspery import calculate_fi
from tinygp import kernels


STAR = {
    "sigma_wn_rv": 50.0,
    "Tau": 20.0,
    "eta": 0.5,
    "Prot": 10.0,
    "sigma_qp_rv": 100.0,
}
PLANETS = {
    "one_planet": {"K": [300.0], "P": [8.3], "T0": [2.1]},
    "two_planets": {"K": [300.0, 120.0], "P": [8.3, 21.7], "T0": [2.1, 5.5]},
}
ADDED = 1e-6


def flat(planets: dict) -> list[float]:
    """K, P and T0 of the first planet, then of the second."""
    return [value for planet in zip(*planets.values(), strict=True) for value in planet]


def gaspery_fisher(t, theta) -> np.ndarray:
    """The package's answer, in double precision."""
    star = calculate_fi.Star(**STAR)
    periodic = kernels.ExpSineSquared(scale=star.Prot, gamma=1 / (2 * star.eta**2))
    kernel = star.sigma_qp_rv**2 * kernels.ExpSquared(scale=star.Tau) * periodic
    covariance = star.cov_matrix_general(t, kernel)
    return np.asarray(calculate_fi.clam_jax_fim(t, covariance, np.array(theta)))


def mpmath_fisher(t, theta, added: float) -> np.ndarray:
    """J' C⁻¹ J with derivatives by hand and 50 digits."""
    white, tau, eta, rotation, amplitude = (mpmath.mpf(v) for v in STAR.values())
    times, two_pi = [mpmath.mpf(v) for v in t], 2 * mpmath.pi

    def kernel(lag):
        periodic = mpmath.sin(mpmath.pi * lag / rotation) ** 2 / (2 * eta**2)
        return amplitude**2 * mpmath.exp(-(lag**2) / (2 * tau**2) - periodic)

    covariance = mpmath.matrix([[kernel(a - b) + added for b in times] for a in times])
    for i in range(len(times)):
        covariance[i, i] += white**2

    def slopes(time):
        row = []
        for k, period, t0 in np.reshape(theta, (-1, 3)):
            angle = two_pi * (time - mpmath.mpf(t0)) / mpmath.mpf(period)
            turn = mpmath.mpf(k) * mpmath.cos(angle)
            row += [-mpmath.sin(angle), turn * angle / period, turn * two_pi / period]
        return row

    jacobian = mpmath.matrix([slopes(time) for time in times])
    fisher = jacobian.T * mpmath.inverse(covariance) * jacobian
    return np.array(fisher.tolist(), float)


def answer(t, planets: dict) -> dict:
    """Both matrices, and what the added 1e-6 does to the result."""
    theta = flat(planets)
    fisher = gaspery_fisher(t, theta)
    exact, plain = mpmath_fisher(t, theta, ADDED), mpmath_fisher(t, theta, 0.0)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    names = [f"{name}{i + 1}" for i in range(len(planets["K"])) for name in planets]
    return {
        "formula": "v(t) = sum over planets of -K sin(2 pi (t - T0) / P);"
        " fisher = J' C^-1 J; C = sigma_qp_rv^2 exp(-tau^2 / (2 Tau^2)"
        " - sin(pi tau / Prot)^2 / (2 eta^2)) + sigma_wn_rv^2 on the diagonal"
        " + added_to_every_element",
        "parameters": names,
        "theta": theta,
        "data": {"t": t},
        "star": STAR,
        "added_to_every_element": ADDED,
        "fisher": fisher,
        "fisher_with_nothing_added_50_digits": plain,
        "accuracy": {
            "fisher_to_50_digits": np.max(np.abs(fisher - exact) / scale),
            "effect_of_what_is_added": np.max(np.abs(plain - exact) / scale),
        },
    }


def main():
    """Twenty-five nights, chosen at random from two months."""
    jax.config.update("jax_enable_x64", True)
    mpmath.mp.dps = 50
    t = digits(np.sort(np.random.default_rng(8).uniform(0.0, 60.0, 25)))
    problems = {name: answer(t, planets) for name, planets in PLANETS.items()}
    write("gaspery", ("gaspery", "tinygp", "jax", "mpmath"), problems)


if __name__ == "__main__":
    main()
