"""Semi-amplitudes and the masses behind them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import nbody
from diffsim.verify import taylor_test


ORBIT = {"period": 2.0, "eccentricity": 0.3, "inclination": 1.1, "G": 1.7}


def test_jupiter_moves_the_sun_by_its_published_semi_amplitude():
    given = {"period": 4332.6, "eccentricity": 0.0484, "G": nbody.G["au, Msun, day"]}
    found = nbody.semi_amplitude(1.0, 9.546e-4, **given) * 149_597_870_700 / 86_400
    # Perryman 2018, The Exoplanet Handbook, table 2.1: 12.5 m/s
    assert found == pytest.approx(12.5, abs=0.05)


def test_semi_amplitude_is_half_the_range_of_the_stars_velocity():
    f = jnp.linspace(0, 2 * np.pi, 20001)
    orbit = nbody.Orbit(
        period=2.0,
        eccentricity=0.3,
        argument_of_pericenter=0.7,
        inclination=1.1,
        true_anomaly=f,
    )
    _, v = orbit.state(1.7 * (1.3 + 0.2))
    star = -0.2 / 1.5 * v[:, 2]
    half = (jnp.max(star) - jnp.min(star)) / 2
    # between the 20001 angles the sine falls by 1e-8
    assert nbody.semi_amplitude(1.3, 0.2, **ORBIT) == pytest.approx(
        float(half), rel=2e-8
    )


def test_mass_is_the_inverse_of_the_semi_amplitude_for_any_mass_ratio():
    masses = np.logspace(-9, 4, 40)
    K = nbody.semi_amplitude(1.3, masses, **ORBIT)
    np.testing.assert_allclose(nbody.planet_mass(1.3, K, **ORBIT), masses, rtol=1e-14)
    single = nbody.planet_mass(jnp.float32(1.3), K.astype(jnp.float32), **ORBIT)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, masses, rtol=2e-6)


def test_mass_is_smooth_in_the_semi_amplitude_through_zero():
    def mass(K, star, e):
        given = {**ORBIT, "eccentricity": e}
        return nbody.planet_mass(star, K, **given)

    for K in (-0.1, 0.2, 3.0):
        found = taylor_test(jax.jit(mass), *map(jnp.asarray, (K, 1.3, 0.3)), scale=0.05)
        assert found.passed, found
    # m = c K (1 + m/M)^(2/3): d²m/dK² = 4 c² / (3 M) at K = 0
    first, second = jax.jit(
        lambda *at: [d(mass)(*at) for d in (jax.grad, jax.hessian)]
    )(0.0, 1.3, 0.3)
    assert second == pytest.approx(4 * float(first) ** 2 / (3 * 1.3), rel=1e-14)
