"""`Bodies` and `TestParticles`, what moves and where it starts; and their `State`."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._text_table import (
    MOST_ROWS,
    Block,
    Table,
    html_representation,
    text_representation,
)
from .._types import Numbers
from .._validation import as_floating, check_shape, check_unitless
from ._bodies_from_elements import bodies_from_elements
from ._kepler import Elements, NonsingularElements
from ._names import checked_names
from ._rebound import check_not_softened, particles_of


class Bodies(eqx.Module):
    """Point masses with their initial positions and velocities.

    ```python
    x = [[0.0, 0.0, 0.0], [5.2, 0.0, 0.0]]
    v = [[0.0, 0.0, 0.0], [0.0, 0.44, 0.0]]
    bodies = nbody.Bodies([1.0, 9.5e-4], x, v, names=["Sun", "Jupiter"])
    ds.simulate(nbody.NBody(bodies), [0.0, 10.0])["Jupiter"].positions
    ```

    **Arguments**

    - `masses`: shape (body,); mass. Zero is allowed; `TestParticles` are cheaper.
    - `positions`: shape (body, 3); length.
    - `velocities`: shape (body, 3); length / time.
    - `names`: one a body, so that paths may read `bodies.masses[Jupiter]`; no two
        alike, and none that a path would take for an index, as "4" or "1:".

    Units are yours, as long as `Gravity(G=...)` has the same; see `nbody.G`.

    Fields cannot be assigned: `eqx.tree_at(lambda s: s.bodies.masses, system, masses)`
    is `system` with other masses, instead of `system.bodies.masses = masses`.

    **Raises:** `ValueError` if shapes or names do not agree.
    """

    masses: Float[Array, " body"]
    positions: Float[Array, "body 3"]
    velocities: Float[Array, "body 3"]
    names: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        masses: Numbers,
        positions: Numbers,
        velocities: Numbers,
        *,
        names: Sequence[Any] | None = None,
    ):
        masses = as_floating("masses", masses)
        # `atleast_1d` would be compiled for every number of bodies.
        masses = masses if masses.ndim else masses[None]
        if masses.ndim > 1:
            raise ValueError(
                f"masses must have shape (body,), got {masses.shape}; one mass a body, "
                "and the order is Bodies(masses, positions, velocities)"
            )
        self.masses = masses
        self.positions, self.velocities = _phase(positions, velocities, masses.size)
        self.names = checked_names(names, masses.size)

    @classmethod
    def from_elements(
        cls,
        masses: Numbers,
        elements: Elements | NonsingularElements,
        *,
        G: Numbers = 1.0,
        jacobi: bool = False,
        names: Sequence[str] | None = None,
    ) -> "Bodies":
        """A center and bodies on orbits about it, shifted to the barycenter at rest.

        ```python
        planets = nbody.Elements(semi_major_axis=[1.0, 5.2], eccentricity=[0.017, 0.05])
        bodies = nbody.Bodies.from_elements([1.0, 3e-6, 1e-3], planets, G=39.48)
        ```

        **Arguments**

        - `masses`: shape (body,); the first is the center.
        - `elements`: `Elements` or `NonsingularElements` of shape (body − 1,).
        - `G`: that of `Gravity`.
        - `jacobi`: False for orbits about the center itself, with the gravity of both,
            GM = G (m₀ + mᵢ), each as if the others were not there; True for orbits
            about the barycenter of all before, GM = G (m₀ + ... + mᵢ), as REBOUND
            takes them by default.
        - `names`: one a body, the center's as well.

        **Raises:** `ValueError` for another number of orbits.
        """
        return cls(
            *bodies_from_elements(masses, elements, G=G, jacobi=jacobi), names=names
        )

    @classmethod
    def from_rebound(cls, simulation: Any) -> "Bodies":
        """The particles of a `rebound.Simulation`, with their names if all have one.

        G and the time are not the bodies': `NBody.from_rebound(simulation)` has them
        as well. REBOUND is not imported, only its attributes are read.

        **Raises:** `ValueError` for what bodies would not feel as particles do:
        softening, and all that `NBody.from_rebound` refuses.
        """
        check_not_softened(simulation)
        masses, positions, velocities, names = particles_of(simulation)
        return cls(masses, positions, velocities, names=names)

    @classmethod
    def from_table(cls, table: Any, *, G: float = 1.0, names: str = "name") -> "Bodies":
        """Bodies from columns named as JPL Horizons names them.

        **Arguments**

        - `table`: anything indexed by column name (a dict, a pandas or astropy table)
            with `X`, `Y`, `Z`, `VX`, `VY`, `VZ`, and `mass` or `GM`; case is ignored.
        - `G`: divides `GM` into masses; your units.
        - `names`: the column of names; it may be missing.

        **Raises:** `ValueError` naming the column that is missing.
        """
        masses, positions, velocities, labels = _columns_of(table, G=G, names=names)
        return cls(masses, positions, velocities, names=labels)

    def __repr__(self) -> str:
        return text_representation(self, _description)

    def _repr_html_(self) -> str:
        return html_representation(self, _description)


def _description(bodies: Bodies) -> list[Block]:
    masses, x, v = map(np.asarray, (bodies.masses, bodies.positions, bodies.velocities))
    if masses.ndim != 1:
        raise ValueError("bodies must be those of one system, got a batch")
    count, shown = masses.size, min(masses.size, MOST_ROWS)
    names = bodies.names or tuple(map(str, range(shown)))
    numbers = np.column_stack([masses, x, v])[:shown].tolist()
    rows = [
        (name, *(f"{number:.6g}" for number in row))
        for name, row in zip(names[:shown], numbers, strict=True)
    ]
    header = ("body", "mass", "x", "y", "z", "vx", "vy", "vz")
    headline = f"{count} {'body' if count == 1 else 'bodies'} in {x.dtype}"
    return [headline, Table(header, rows, more=count - shown)]


class TestParticles(eqx.Module):
    """Massless bodies that feel every force and cause none, O(massive × test particle).

    ```python
    system = problems.outer_solar_system()
    x, v = [[2.0, 0.0, 0.5]], [[0.0, 0.8, 0.0]]
    comet = nbody.TestParticles(x, v, names=["comet"])
    system = nbody.NBody(system.bodies, test_particles=comet)
    ds.simulate(system, [0.0, 10.0])["comet"].positions
    ```

    **Arguments**

    - `positions`: shape (test particle, 3); length.
    - `velocities`: shape (test particle, 3); length / time.
    - `names`: one a test particle, or None; as those of `Bodies`, and unlike them.
    """

    positions: Float[Array, "test_particle 3"]
    velocities: Float[Array, "test_particle 3"]
    names: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        positions: Numbers,
        velocities: Numbers,
        *,
        names: Sequence[Any] | None = None,
    ):
        self.positions, self.velocities = _phase(positions, velocities, None)
        self.names = checked_names(names, self.positions.shape[0])


def _phase(positions, velocities, count: int | None):
    positions = as_floating("positions", positions)
    velocities = as_floating("velocities", velocities)
    check_shape("positions", positions, (count, 3), _hint(positions, count))
    count = len(positions)
    check_shape("velocities", velocities, (count, 3), _hint(velocities, count))
    dtype = jnp.result_type(positions, velocities)
    if dtype in (jnp.float16, jnp.bfloat16):
        raise ValueError(
            f"positions and velocities must be in float32 or float64, got {dtype}, "
            "whose rounding a run would add up; cast them, x.astype(jnp.float32) say"
        )
    return positions.astype(dtype), velocities.astype(dtype)


def _hint(vectors: Array, count: int | None) -> str:
    shape = vectors.shape
    if count is not None and shape == (3, count):
        return "rows are bodies, so transpose it with .T"
    planar = shape[-1:] == (2,)
    return "for planar systems set z to zero" if planar else "one row x, y, z a body"


def _columns_of(table: Any, *, G: float, names: str):
    """Masses, positions, velocities and names from named columns."""
    columns = {str(key).strip().lower(): key for key in _keys(table)}

    def column(name):
        if name.lower() not in columns:
            raise ValueError(
                f"table has no column {name}; it has {', '.join(_keys(table))}"
            )
        found = table[columns[name.lower()]]
        check_unitless(name, found)
        return np.atleast_1d(np.asarray(found))

    mass = column("mass") if "mass" in columns else column("GM") / G
    positions = np.stack([column(c) for c in "XYZ"], axis=-1)
    velocities = np.stack([column(c) for c in ("VX", "VY", "VZ")], axis=-1)
    labels = column(names).tolist() if names.lower() in columns else None
    return mass, positions, velocities, labels


def _keys(table: Any) -> list[str]:
    keys = table.keys() if hasattr(table, "keys") else getattr(table, "columns", ())
    return [str(key) for key in keys]


class State(eqx.Module):
    """Public form of an N-body state; test particles follow the bodies.

    **Fields**

    - `positions`: shape (body, 3), or (time, body, 3) in a trajectory; length.
    - `velocities`: the same shape; length / time.
    """

    positions: Float[Array, "*time body 3"]
    velocities: Float[Array, "*time body 3"]


def checked_state(state: Any) -> State:
    """`state`; raises for anything else, a trajectory for instance."""
    if not isinstance(state, State):
        raise ValueError(
            f"state must be an nbody.State, got a {type(state).__name__}; that of a "
            "trajectory is trajectory.states"
        )
    return state
