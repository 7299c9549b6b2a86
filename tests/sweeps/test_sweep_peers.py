"""What became of killed sweeps, and gradients of runs, beside those of other libraries.

xsweep and gradsolve are not installed: scripts in `tools/peers` have killed the sweeps,
differentiated the runs, and written what came of it. Times are in the files, not here.
"""

import json
import pathlib

import pytest


PEERS = pathlib.Path(__file__).parents[2] / "tools/peers"
KILLED = json.loads((PEERS / "xsweep.json").read_text(encoding="utf-8"))["problems"]
GRADIENTS = json.loads((PEERS / "gradsolve_sweep.json").read_text(encoding="utf-8"))
KINDS = tuple(kind for kind in KILLED if kind != "overhead")
#: Chunks of a sweep that are neither on the disk nor to be begun, where the device has
#: place for one: one is computed, one taken over, two wait to be written.
IN_FLIGHT = 4


@pytest.mark.parametrize("kind", KINDS)
def test_killed_sweeps_lose_no_run(kind):
    found = KILLED[kind]
    assert found["kills"] == 10
    assert found["before_first_run"] < 5
    assert found["lost"] == 0


@pytest.mark.parametrize("chunk", [32, 512])
def test_chunks_in_flight_alone_are_run_again(chunk):
    found = KILLED[f"diffsim_chunks_{chunk}"]
    during_runs = found["kills"] - found["before_first_run"]
    assert 0 < found["repeated"] <= IN_FLIGHT * chunk * during_runs


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "diffsim" in kind])
def test_killed_sweeps_go_on_by_the_same_call(kind):
    """No lock is to be broken, and no store that was begun to be deleted."""
    assert KILLED[kind]["refused"] == KILLED[kind]["locks_left"] == 0


def test_gradients_of_runs_are_as_exact_as_those_of_gradsolve():
    for problem in GRADIENTS["problems"].values():
        ours, theirs = problem["error_of_diffsim"], problem["error_of_gradsolve"]
        assert ours["median"] < 2 * theirs["median"]
        assert ours["largest"] < 2 * theirs["largest"]


def test_gradients_come_faster_than_gradsolve_records_and_replays_the_runs():
    for problem in GRADIENTS["problems"].values():
        assert problem["diffsim_over_gradsolve_record_and_replay"] < 1
