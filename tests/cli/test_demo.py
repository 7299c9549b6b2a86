"""The demo on a short arc, and its reports of failure; `.ci/run` runs all of it.

So rows of the short arc are slow.
"""

import contextlib
import dataclasses
import io
import pathlib
import time

import diffrax
import equinox as eqx
import jax
import matplotlib.image
import numpy as np
import pytest

import diffsim as ds
from diffsim import cli, inference, problems
from diffsim.cli import _demo, _demo_text, _planet_masses
from diffsim.cli._demo_text import Clock, Stage


#: 240 days at 500 km: the same 70 parameters, and most masses out of reach.
SHORT = _planet_masses.ExperimentSetup(
    seed=4, epochs=24, sigma_km=500.0, method=ds.Method(diffrax.Tsit5(), step=1.0)
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run of the demo left."""

    code: int
    printed: str
    folder: pathlib.Path


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    folder, printed = tmp_path_factory.mktemp("demo") / "new", io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = _demo.demo(folder, setting=SHORT, importing=1.5)
    return Outcome(code, printed.getvalue(), folder)


@pytest.mark.slow
def test_short_demo_recovers_the_masses_its_data_determine(short):
    assert short.code == 0, short.printed
    assert "All masses within 4 σ of JPL's" in short.printed
    assert "720 coordinates" in short.printed and "70 numbers" in short.printed
    assert "noise of 500 km (seed 4)" in short.printed


@pytest.mark.slow
def test_undetermined_masses_are_reported_as_undetermined(short):
    assert "Pluto is undetermined: its error bar is" in short.printed
    pluto = next(x for x in short.printed.splitlines() if x.startswith("  Pluto"))
    assert pluto.split()[1] == "undetermined"


@pytest.mark.slow
def test_forecast_is_better_than_the_fit_for_every_mass(short):
    table = short.printed.split("Forecast:")[1].split("Sweep:")[0].splitlines()
    gains = [float(x.split()[-2]) for x in table if x.endswith("×")]
    assert len(gains) == 10 and min(gains) > 1


@pytest.mark.slow
def test_sweep_is_best_at_the_fit(short):
    rows = [x.split() for x in short.printed.splitlines() if x.startswith("  × ")]
    chi2 = {float(row[1]): float(row[2]) for row in rows}
    assert min(chi2, key=chi2.__getitem__) == 1.0


@pytest.mark.slow
def test_figures_are_written_where_the_demo_reports(short):
    files = sorted(short.folder.iterdir())
    assert len(files) == 2
    for file in files:
        assert str(file) in short.printed
        pixels = matplotlib.image.imread(file)
        assert min(pixels.shape[:2]) > 800 and np.std(pixels) > 0.05


def test_earth_and_moon_are_one_body_at_their_barycenter():
    table, sky = problems.load_de440(), _planet_masses.observed(SHORT)
    earth, moon = (table.names.index(name) for name in ("Earth", "Moon"))
    one = sky.names.index("Earth+Moon")
    assert sky.gm[one] == table.gm[earth] + table.gm[moon]
    moment = sum(table.gm[i] * table.positions[0, i] for i in (earth, moon))
    # Two products and a sum, each rounded once.
    np.testing.assert_allclose(sky.gm[one] * sky.positions0[one], moment, rtol=1e-15)


def test_noise_and_initial_guess_are_as_stated_and_seeded():
    sky, again = _planet_masses.observed(SHORT), _planet_masses.observed(SHORT)
    np.testing.assert_array_equal(sky.data, again.data)
    clean = _planet_masses.observed(dataclasses.replace(SHORT, sigma_km=0.0)).data
    spread = np.std((sky.data - clean) * sky.au_km)
    # 720 draws: their standard deviation has one of 500/sqrt(1440) = 13.
    assert abs(spread - 500) < 4 * 13
    off = np.array([_start(sky, seed) for seed in range(200)])
    assert np.all(np.abs(off[:, 0]) <= 1e-4) and np.all(np.abs(off[:, 1:]) <= 0.5)
    assert off[:, 1:].min() < -0.49 and off[:, 1:].max() > 0.49


def _start(sky, seed):
    return np.asarray(_planet_masses.wrong_start(sky, seed).bodies.masses) / sky.gm - 1


class Claims:
    """A fit that weighs Saturn with a given error, and a sweep, both in no time."""

    def __init__(self, *, saturn=0.0, chi2=700.0, result=ds.RESULTS.successful):
        sky = _planet_masses.observed(SHORT)
        system = _planet_masses.wrong_start(sky, 0)
        bar = 1e-3 * sky.gm
        off = np.where(np.array(sky.names) == "Saturn", saturn, 0.0)
        # 700 data that no parameter can change stand for the residuals.
        fit = ds.fit(
            lambda s: (s.bodies.masses, np.zeros(700)),
            system,
            (sky.gm, np.full(700, np.sqrt(chi2 / 700))),
            noise=inference.Gaussian((bar, 1.0)),
            free="bodies.masses",
        )
        self.sky = sky
        self.fit = eqx.tree_at(
            lambda f: (f.values, f.status), fit, (fit.values + off * bar, result)
        )

    def failures(self, jupiter=1e-7):
        swept = ds.sweep(
            lambda s: s.bodies.masses,
            self.fit.model,
            {"bodies.masses[Jupiter]": [1e-7, jupiter]},
        )
        return _demo_text.failures(self.sky, self.fit, swept)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"saturn": 4.5}, "the mass of Saturn is +4.5 σ from JPL's"),
        ({"saturn": np.nan}, "the mass of Saturn is +nan σ"),
        ({"chi2": 775.0}, "chi2 per degree of freedom is 1.107"),
        ({"chi2": 620.0}, "chi2 per degree of freedom is 0.886"),
        ({"result": ds.RESULTS.no_progress}, "the fit did not converge"),
    ],
)
def test_each_failed_claim_is_reported(changes, said):
    found = Claims(**changes).failures()
    assert len(found) == 1 and said in found[0]
    assert _demo_text.verdict(found).startswith("FAILED")


def test_no_failure_is_reported_where_all_claims_hold():
    assert Claims(saturn=3.9, chi2=769.0).failures() == []


def test_failed_run_of_the_sweep_is_reported():
    (found,) = Claims().failures(jupiter=np.nan)
    assert "1 runs of the sweep failed" in found


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (317.89473, 0.00098, "317.89473"),
        (0.05542, 0.00081, "0.05542"),
        (132712442087.3, 1284.2, "132712442087"),
        (1.0, 0.2, "1.00"),
    ],
)
def test_values_are_rounded_to_two_digits_of_their_error(value, error, expected):
    assert _demo_text.rounded(value, error) == expected


@pytest.mark.slow
def test_wall_times_of_the_stages_add_up_to_the_total(short):
    table = short.printed.split("wall time [s]")[1].split("\n\n")[0].splitlines()[1:]
    *parts, total = (float(line.split()[-1]) for line in table)
    assert table[0].split() == ["imports", "1.5"] and len(parts) == 5
    # What is not in a stage is data, printing and the rounding of six numbers.
    assert -0.3 <= total - sum(parts) < 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_line_moves_and_compile_time_is_counted():
    stream = Terminal()
    clock = Clock(stream)
    with clock.stage("waiting"):
        clock.tell("for news")
        wait_for(lambda: stream.getvalue().count("\r") > 2)
        jax.jit(lambda x: x * 3 + len(clock.stages))(1.0)
    assert "waiting for news" in stream.getvalue()
    stage = clock.stages[0]
    assert isinstance(stage, Stage) and stage.title == "waiting"
    assert 0 < stage.compiling <= stage.seconds


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


def test_progress_line_does_not_move_without_a_terminal():
    stream = io.StringIO()
    with Clock(stream).stage("work"):
        pass
    assert "\r" not in stream.getvalue()
    assert stream.getvalue().startswith("work: 0.0 s")


def test_seed_that_is_not_an_integer_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--seed", "x"])
    assert stop.value.code == 2
    assert "must be a whole number from 0, got 'x'" in capsys.readouterr().err


def test_output_folder_that_cannot_be_created_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("diffsim demo: ")
