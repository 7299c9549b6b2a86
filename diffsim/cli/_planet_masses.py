"""The experiment of the demo: noisy positions of the planets, and a model of them."""

import dataclasses
from typing import Any, final

import diffrax
import numpy as np
from jaxtyping import Array, Float

from ..nbody import Bodies, Gravity, NBody, PostNewtonian
from ..problems import load_de440
from ..simulations import Method, simulate


#: Days between two positions, as in the table.
CADENCE = 10.0


@final
@dataclasses.dataclass(frozen=True)
class ExperimentSetup:
    """Observations to make, their errors, and how they are computed.

    - `seed`: of the noise and of the wrong start.
    - `epochs`: how many positions of each body, ten days apart; at most 366.
    - `sigma_km`: standard deviation of the noise of each coordinate.
    - `method`: Mercury decides it. Over ten years Dormand–Prince 8(7) at steps of two
        days leaves it 9 km off and moves no mass by a tenth of its error bar.
    """

    seed: int = 1
    epochs: int = 366
    sigma_km: float = 50.0
    method: Method = dataclasses.field(
        default_factory=lambda: Method(diffrax.Dopri8(), step=2.0)
    )


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Observations:
    """Data of the fit, `times` and `data`, and values that it is compared with.

    Lengths in au, times in days, GM in au³/day²; `data` are those of `setting`.
    """

    names: tuple[str, ...]
    times: Float[np.ndarray, " time"]
    data: Float[np.ndarray, "time body 3"]
    sigma: float
    gm: Float[np.ndarray, " body"]
    positions0: Float[np.ndarray, "body 3"]
    velocities0: Float[np.ndarray, "body 3"]
    c: float
    au_km: float
    earth_gm: float

    @property
    def km3_s2(self) -> float:
        """km³/s² in an au³/day²."""
        return self.au_km**3 / 86400.0**2

    def system(self, gm: Any, positions: Any, velocities: Any) -> NBody:
        """Bodies with masses that are G M, under Newton's gravity and the Sun's 1PN."""
        bodies = Bodies(gm, positions, velocities, names=self.names)
        return NBody(bodies, (Gravity(), PostNewtonian(self.c, primary=0)))


def observed(setting: ExperimentSetup) -> Observations:
    """DE440 with noise; Earth and Moon are one body at their barycenter."""
    table = load_de440()
    if not 2 <= setting.epochs < table.epochs.size:
        raise ValueError(
            f"epochs must be from 2 to {table.epochs.size - 1}, got {setting.epochs}"
        )
    earth, moon = (table.names.index(name) for name in ("Earth", "Moon"))
    bodies = [i for i in range(len(table.names)) if i != moon]
    pair = table.gm[[earth, moon]]
    gm, weights = table.gm.copy(), np.eye(len(table.names))
    gm[earth] = pair.sum()
    weights[earth, [earth, moon]] = pair / pair.sum()
    positions, velocities0 = (
        np.einsum("ab,...bk->...ak", weights[bodies], vectors)
        for vectors in (table.positions, table.velocities0)
    )
    names = ["Earth+Moon" if name == "Earth" else name for name in table.names]
    truth = positions[1 : setting.epochs + 1]
    sigma = setting.sigma_km / table.au_km
    noise = np.random.default_rng([setting.seed, 0]).normal(size=truth.shape)
    return Observations(
        names=tuple(names[i] for i in bodies),
        times=table.epochs[1 : setting.epochs + 1],
        data=truth + sigma * noise,
        sigma=sigma,
        gm=gm[bodies],
        positions0=positions[0],
        velocities0=velocities0,
        c=table.c,
        au_km=table.au_km,
        earth_gm=float(table.gm[earth]),
    )


def wrong_start(sky: Observations, seed: int) -> NBody:
    """Masses up to 50 % off, the Sun's 1e-4, positions 1e-4 au, velocities 1e-6 au/day.

    Masses uniformly within these limits, the rest with these standard deviations.
    """
    random = np.random.default_rng([seed, 1])
    limits = np.where(np.array(sky.names) == "Sun", 1e-4, 0.5)
    off = random.uniform(-1, 1, sky.gm.size) * limits
    shape = sky.positions0.shape
    return sky.system(
        sky.gm * (1 + off),
        sky.positions0 + 1e-4 * random.normal(size=shape),
        sky.velocities0 + 1e-6 * random.normal(size=shape),
    )


@final
@dataclasses.dataclass(frozen=True)
class Prediction:
    """Positions at every tenth day, as a function of the system."""

    epochs: int
    method: Method

    def __call__(self, system: NBody) -> Float[Array, "time body 3"]:
        times = CADENCE * np.arange(1, self.epochs + 1)
        return simulate(system, times, self.method).states.positions
