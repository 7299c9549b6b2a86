"""Progress meters move, and nothing is printed by default."""

import re

import diffrax
import jax
import numpy as np
import pytest

from diffsim.integrators import Leapfrog
from diffsim.simulations import Method, Reversible, simulate


_METHODS = {
    "fixed": Method(Leapfrog(), 0.01),
    "reversible": Method(Leapfrog(), 0.01, adjoint=Reversible()),
    "adaptive": Method(diffrax.Tsit5(), max_steps=256),
}


@pytest.mark.parametrize("name", _METHODS)
def test_text_progress_meter_reaches_the_end(driven, capfd, name):
    meter = diffrax.TextProgressMeter(minimum_increase=0.05)
    watched = simulate(driven(), 10.0, _METHODS[name], progress=meter)
    jax.block_until_ready(watched.states)
    jax.effects_barrier()
    percents = [float(x) for x in re.findall(r"([\d.]+)%", capfd.readouterr().out)]
    assert len(percents) > 10 and percents == sorted(percents)
    assert percents[0] < 10 and percents[-1] == 100
    np.testing.assert_allclose(watched.states, driven().exact(10.0), atol=2e-4)


def test_tqdm_progress_meter_reaches_the_end(driven, capfd):
    meter = diffrax.TqdmProgressMeter()
    jax.block_until_ready(simulate(driven(), 10.0, _METHODS["fixed"], progress=meter))
    jax.effects_barrier()
    assert "100" in capfd.readouterr().err


def test_nothing_is_printed_by_default(driven, capfd):
    simulate(driven(), 10.0, _METHODS["fixed"])
    assert capfd.readouterr() == ("", "")
