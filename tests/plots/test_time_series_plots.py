"""Phase-folded velocities and O − C diagrams show the phases and times of the data."""

import numpy as np
import pytest

from diffsim import plots


RANDOM = np.random.default_rng(0)
TIMES = np.sort(RANDOM.uniform(0, 90, 40))
PERIOD, EPOCH = 4.2, 1.3


def signal(t):
    return 3 * np.sin(2 * np.pi * (t - EPOCH) / PERIOD)


def observed(ax, which=0):
    """Points and half lengths of the error bars of a series."""
    points, _, bars = ax.containers[which]
    halves = [np.ptp(bar[:, 1]) / 2 for bar in bars[0].get_segments()] if bars else None
    return points.get_xydata(), halves


def test_phases_of_points_count_from_the_epoch():
    sigma = RANDOM.uniform(0.1, 0.3, TIMES.size)
    ax = plots.phase_folded(
        TIMES, signal(TIMES), PERIOD, epoch=EPOCH, sigma=sigma, label="velocity [m/s]"
    )
    ax.figure.canvas.draw()
    points, halves = observed(ax)
    np.testing.assert_array_equal(points[:, 0], ((TIMES - EPOCH) / PERIOD) % 1)
    np.testing.assert_array_equal(points[:, 1], signal(TIMES))
    np.testing.assert_allclose(halves, sigma)
    assert ax.get_ylabel() == "velocity [m/s]"
    assert ax.get_xlabel() == "phase, period 4.2"


def test_points_beyond_the_ends_of_a_period_are_repeated():
    ax = plots.phase_folded(TIMES, signal(TIMES), PERIOD)
    phase = (TIMES / PERIOD) % 1
    after, before = (observed(ax, which)[0][:, 0] for which in (1, 2))
    np.testing.assert_allclose(after, phase[phase < 0.1] + 1)
    np.testing.assert_allclose(before, phase[phase > 0.9] - 1)


@pytest.mark.parametrize("model", [signal, (TIMES, signal(TIMES))])
def test_model_over_phase_is_the_signal(model):
    ax = plots.phase_folded(TIMES, signal(TIMES), PERIOD, epoch=EPOCH, model=model)
    phase, values = ax.lines[0].get_xydata().T
    assert np.all(np.diff(phase) >= 0)
    np.testing.assert_allclose(values, 3 * np.sin(2 * np.pi * phase), atol=1e-12)


def test_instruments_in_the_same_axes_differ_by_color_and_marker():
    ax = plots.phase_folded(TIMES, signal(TIMES), PERIOD)
    assert plots.phase_folded(TIMES, signal(TIMES), PERIOD, ax=ax) is ax
    first, second = (ax.containers[which].lines[0] for which in (0, 3))
    assert first.get_marker() != second.get_marker()
    assert first.get_color() != second.get_color()


def test_observed_minus_computed_of_a_linear_ephemeris_is_zero():
    epochs = np.array([0, 1, 4, 5, 9, 30])
    days = 2_460_000.25 + 3.5 * epochs
    ax = plots.observed_minus_computed(days, epochs=epochs, sigma=0.001)
    ax.figure.canvas.draw()
    points, halves = observed(ax)
    np.testing.assert_array_equal(points[:, 0], epochs)
    # Days of seven digits have 5e-10 days, 7e-7 minutes.
    np.testing.assert_allclose(points[:, 1], 0, atol=3e-6)
    np.testing.assert_allclose(halves, 1.44)
    assert ax.get_xlabel() == "epoch n,  C = 2460000.25 + 3.5 n"
    assert ax.get_ylabel() == "O − C [min]"


def test_fitted_ephemeris_is_that_of_weighted_least_squares():
    epochs = np.arange(12.0)
    sigma = RANDOM.uniform(0.5, 2.0, 12)
    times = 10 + 3 * epochs + RANDOM.normal(size=12) * sigma * 0.1
    points, _ = observed(plots.observed_minus_computed(times, sigma=sigma, unit=None))
    line = np.polynomial.Polynomial.fit(epochs, times, 1, w=1 / sigma)
    np.testing.assert_allclose(points[:, 1], times - line(epochs), atol=1e-12)


def test_given_ephemeris_counts_epochs_and_is_subtracted_from_the_model():
    epochs = np.array([-2, 0, 7, 8])
    off = np.array([0.01, -0.02, 0.0, 0.03])
    ahead = np.arange(12)
    ax = plots.observed_minus_computed(
        100 + 5 * epochs + off,
        ephemeris=(100.0, 5.0),
        model=(ahead, 100 + 5 * ahead + 0.002 * ahead),
        unit="h",
        label="planet b",
    )
    points, _ = observed(ax)
    np.testing.assert_allclose(points, np.stack([epochs, 24 * off], 1), atol=1e-11)
    curve = ax.lines[1].get_xydata()
    np.testing.assert_allclose(curve, np.stack([ahead, 0.048 * ahead], 1), atol=1e-11)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["planet b"]
