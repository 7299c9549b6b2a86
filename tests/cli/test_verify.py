"""`diffsim verify`: rows are measured, and a failed check is reported."""

import diffrax
import equinox as eqx
import jax
import numpy as np
import pytest

from diffsim import cli, integrators, pde
from diffsim.cli import _convergence_table, _derivative_table, _integrator_table
from diffsim.cli._table_printing import Measured
from diffsim.problems import PDE_PROBLEMS
from diffsim.verify import TaylorReport


TWO_BODIES = _integrator_table.SUBJECTS[0]
OF_ORBITS = ("HybridWisdomHolman", "IAS15", "SABA", "WisdomHolman")


@pytest.fixture(scope="module")
def leapfrog():
    return _integrator_table.measured(TWO_BODIES, integrators.Leapfrog(), 128)


def test_row_has_taylor_slopes_of_two_and_the_expected_order(leapfrog):
    assert leapfrog.failures == ()
    assert abs(leapfrog.forward - 2) <= 0.1 and abs(leapfrog.reverse - 2) <= 0.1
    assert leapfrog.disagreement < 1e-10
    assert leapfrog.order == pytest.approx(2, abs=0.05) and leapfrog.expected == 2
    assert leapfrog.cost > 1


def test_derivative_that_misses_a_term_fails(monkeypatch):
    monkeypatch.setattr(_integrator_table, "order_of", lambda *_: (2.0, 2))
    monkeypatch.setattr(_integrator_table, "_gradient_cost", lambda *_: 1.0)
    honest = _integrator_table.simulate

    def deaf(system, *given):
        deafened = jax.lax.stop_gradient(system.bodies.masses)
        return honest(_with_masses(system, deafened), *given)

    monkeypatch.setattr(_integrator_table, "simulate", deaf)
    row = _integrator_table.measured(TWO_BODIES, integrators.Leapfrog(), 64)
    assert any("masses" in failure for failure in row.failures)


def _with_masses(system, masses):
    return eqx.tree_at(lambda s: s.bodies.masses, system, masses)


def test_order_below_the_expected_one_fails(monkeypatch):
    report = TaylorReport(())
    monkeypatch.setattr(_integrator_table, "taylor_test", lambda *_, **__: report)
    monkeypatch.setattr(_integrator_table, "_gradient_cost", lambda *_: 1.0)

    class Boastful(integrators.Leapfrog):
        def order(self, terms):
            return 4

    row = _integrator_table.measured(TWO_BODIES, Boastful(), 64)
    assert row.failures == (f"order {row.order:.2f}, expected 4",)


def test_every_public_integrator_is_in_the_table():
    public = set(OF_ORBITS) | {
        name for name in integrators.__all__ if not name.startswith("Abstract")
    }
    assert public <= {
        type(solver).__name__
        for solver, _ in _integrator_table.solvers()
        if any(_integrator_table._runs(x, solver) for x in _integrator_table.SUBJECTS)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ORBITS)
def test_solvers_of_orbits_have_the_order_that_the_table_shows(name):
    """What `diffsim verify` would fail on: elsewhere their orders are of their own."""
    rows = [
        (subject, solver, steps)
        for subject in _integrator_table.SUBJECTS
        for solver, steps in _integrator_table.solvers()
        if type(solver).__name__ == name and _integrator_table._runs(subject, solver)
    ]
    assert rows
    for row in rows:
        order, expected = _integrator_table.order_of(*row)
        assert order > expected - 0.3


def test_the_command_prints_a_table(leapfrog, monkeypatch, capsys):
    monkeypatch.setattr(_integrator_table, "measured", lambda *_: leapfrog)
    assert cli.main(["verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("simulation") and len({len(x) for x in lines}) == 1
    assert cli.main(["verify", "--markdown"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == len(lines) + 1
    assert {line.count("|") for line in table} == {8}
    assert set(table[1]) == set("|- :")


def test_command_fails_where_a_row_fails(leapfrog, monkeypatch, capsys):
    failed = leapfrog._replace(failures=("order 1.00, expected 2",))
    monkeypatch.setattr(_integrator_table, "measured", lambda *_: failed)
    assert cli.main(["verify"]) == 1
    assert "FAILED" in capsys.readouterr().err


def test_symplectic_solvers_are_not_run_on_post_newtonian_forces():
    [relativity, *_] = (x for x in _integrator_table.SUBJECTS if "Post" in x.name)
    assert not _integrator_table._runs(relativity, integrators.Leapfrog())
    assert _integrator_table._runs(relativity, diffrax.Dopri8())


def test_exact_orbit_solves_keplers_equation():
    x, y, u, v = TWO_BODIES.exact
    # Energy and angular momentum of the relative orbit: -1/2 and sqrt(1 - 0.04).
    assert (u * u + v * v) / 2 - 1 / np.hypot(x, y) == pytest.approx(-0.5, rel=1e-14)
    assert x * v - y * u == pytest.approx(np.sqrt(0.96), rel=1e-14)


def test_orders_are_printed_and_missed_orders_fail(monkeypatch, capsys):
    good = _convergence_table.Row(
        "Diffusion", "ReflectingWall", "Central(2)", 2, 1.99, 1.9, 2.0
    )
    monkeypatch.setattr(_convergence_table, "measured_order", lambda *_: good)
    assert cli.main(["verify", "--orders", "--markdown"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == len(list(_convergence_table.all_cases())) + 2
    assert (
        table[2]
        == "| Diffusion | ReflectingWall | Central(2) | 1.99 (2) | 1.90 | 2.00 |"
    )
    for rms in (1.85, float("nan")):
        monkeypatch.setattr(
            _convergence_table,
            "measured_order",
            lambda *_, rms=rms: good._replace(rms=rms),
        )
        assert cli.main(["verify", "--orders"]) == 1
        assert "Diffusion, ReflectingWall" in capsys.readouterr().err


@pytest.fixture(scope="module")
def pde_cases():
    return list(_derivative_table.all_cases())


def test_pde_derivatives_are_printed_and_wrong_derivatives_fail(
    pde_cases, monkeypatch, capsys
):
    monkeypatch.setattr(_derivative_table, "all_cases", lambda: pde_cases)
    good = Measured(("waves", "Leapfrog", "9", "2.000", "2.001", "1e-15"))
    monkeypatch.setattr(_derivative_table, "_row", lambda _: good)
    assert cli.main(["verify", "--derivatives", "--markdown"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == len(pde_cases) + 2
    assert table[2] == "| waves | Leapfrog | 9 | 2.000 | 2.001 | 1e-15 |"
    bad = good._replace(failures=("Taylor slope of .initial",))
    monkeypatch.setattr(_derivative_table, "_row", lambda _: bad)
    assert cli.main(["verify", "--derivatives"]) == 1
    assert "waves, Leapfrog: Taylor slope of .initial" in capsys.readouterr().err


def test_pde_derivative_table_covers_every_equation_and_integrator(pde_cases):
    tried = {solver.__name__ for _, solver in pde_cases if solver}
    fields = {type(solver).__name__ for solver, _ in _integrator_table.solvers()}
    # Compositions of a leapfrog go as the one that is tried.
    composed = {"Yoshida6", "Yoshida8", "KahanLi6", "KahanLi8", "SymmetricComposition"}
    assert fields - tried == {*composed, *OF_ORBITS, "Tsit5"}
    laws = set()
    for name in {name for name, _ in pde_cases}:
        system = PDE_PROBLEMS[name]()
        laws.add(type(getattr(system, "equation", system)).__name__)
    kinds = pde.AbstractEquation | pde.IncompressibleFlow
    public = {n: getattr(pde, n) for n in pde.__all__ if not n.startswith("Abstract")}
    assert laws == {
        n for n, c in public.items() if isinstance(c, type) and issubclass(c, kinds)
    }
