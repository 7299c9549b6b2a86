"""`Request`: a run, as it is handed on."""

from typing import NamedTuple

import diffrax
from jaxtyping import Array, PyTree

from ._elapsed_time import Epoch
from ._plan import Plan
from ._simulation import AbstractSimulation


class Request(NamedTuple):
    """A run: what, how, from where, to which times.

    All times inside are those elapsed since the epoch; `y0` holds at `begin`, which is
    zero but where an adaptive run goes on.
    """

    simulation: AbstractSimulation
    plan: Plan
    epoch: Epoch
    elapsed: Array
    begin: Array
    y0: PyTree[Array]
    meter: diffrax.AbstractProgressMeter
