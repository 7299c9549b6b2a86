"""A simulation of any terms and state that a user may come up with."""

from typing import Any

import diffrax
import equinox as eqx

from diffsim.simulations import AbstractSimulation, Method


class Given(AbstractSimulation):
    start: Any
    dynamics: Any = eqx.field(static=True)
    t0: Any = 0.0

    def initial_state(self):
        return self.start

    def terms(self):
        return self.dynamics

    def default_method(self):
        return Method(diffrax.Tsit5(), max_steps=64)


def ode(field):
    return diffrax.ODETerm(lambda t, y, args: field(y))
