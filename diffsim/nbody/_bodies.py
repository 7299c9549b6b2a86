"""`Bodies` and `TestParticles`, what moves and where it starts; and their `State`."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._extras import Variable
from .._text_table import (
    MOST_ROWS,
    Block,
    Table,
    html_representation,
    text_representation,
)
from .._types import Numbers
from .._validation import as_floating, check_unitless
from ..simulations import AbstractStateAxes
from ._bodies_arguments import as_masses, as_names, as_phase, body_index
from ._bodies_from_elements import (
    barycenter,
    bodies_from_elements,
    groups_from_elements,
    is_grouped,
)
from ._kepler import Elements, NonsingularElements, Orbit
from ._rebound import particles_of


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

    **Raises:** `ValueError` if shapes or names do not agree, for negative masses, and
    for numbers that are not finite.

    **Limits:** traced masses are not looked at, and a negative one repels
    (convenience: a fit may pass through zero).
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
        self.masses = masses = as_masses(masses)
        self.positions, self.velocities = as_phase(positions, velocities, masses.size)
        self.names = as_names(names, masses.size)

    @classmethod
    def from_elements(
        cls,
        masses: Numbers,
        elements: Elements | NonsingularElements | Orbit,
        *,
        G: Numbers = 1.0,
        jacobi: bool = False,
        coordinates: str | None = None,
        names: Sequence[str] | None = None,
    ) -> "Bodies":
        """A center and bodies on orbits about it, shifted to the barycenter at rest.

        ```python
        planets = nbody.Elements(semi_major_axis=[1.0, 5.2], eccentricity=[0.017, 0.05])
        bodies = nbody.Bodies.from_elements([1.0, 3e-6, 1e-3], planets, G=39.48)

        month = nbody.Orbit(period=[0.0748], mean_longitude=0.4)
        earth = nbody.Bodies.from_elements([3e-6, 4e-8], month, G=39.48, names="EM")
        year = nbody.Orbit(period=[1.0])  # of the barycenter of Earth and Moon
        nbody.Bodies.from_elements([1.0, earth], year, G=39.48, names=["Sun"])
        ```

        **Arguments**

        - `masses`: shape (body,); the first is the center. Or a list whose entries are
            masses or `Bodies`, whose barycenter then is on the orbit: binaries, moons
            and hierarchies of any depth.
        - `elements`: `Elements`, `NonsingularElements` or `Orbit`, shape (body − 1,).
        - `G`: that of `Gravity`.
        - `coordinates`: "heliocentric", the default, for orbits about the center
            itself, with the gravity of both, GM = G (m₀ + mᵢ), each as if the others
            were not there; "jacobi" for orbits about the barycenter of all before,
            GM = G (m₀ + ... + mᵢ), as REBOUND takes them by default; "barycentric" for
            orbits about the barycenter of all, GM = G Σm.
        - `jacobi`: True is `coordinates="jacobi"`.
        - `names`: one a body, the center's as well; where bodies are grouped, one for
            each entry that is a mass.

        **Raises:** `ValueError` for another number of orbits, other coordinates, and
            masses that are negative or all zero.
        """
        how = {"G": G, "jacobi": jacobi, "coordinates": coordinates}
        if not is_grouped(masses):
            return cls(*bodies_from_elements(masses, elements, **how), names=names)
        entries: Any = masses
        *parts, names = groups_from_elements(entries, elements, names=names, **how)
        return cls(*parts, names=names)

    @classmethod
    def from_rebound(cls, simulation: Any) -> "Bodies":
        """The particles of a `rebound.Simulation`, with their names if all have one.

        G and the time are not the bodies': `NBody.from_rebound(simulation)` has them
        as well. REBOUND is not imported, only its attributes are read.

        **Raises:** `ValueError` for what bodies would not feel as particles do:
        softening, and all that `NBody.from_rebound` refuses.
        """
        masses, positions, velocities, names = particles_of(simulation, softened=False)
        return cls(masses, positions, velocities, names=names)

    @classmethod
    def from_table(cls, table: Any, *, G: float = 1.0, names: str = "name") -> "Bodies":
        """Bodies from columns named as JPL Horizons names them.

        **Arguments**

        - `table`: anything indexed by column name (a dict, a pandas or astropy table)
            with `X`, `Y`, `Z`, `VX`, `VY`, `VZ`, and `mass` or `GM`; case is ignored.
        - `G`: divides `GM` into masses; your units.
        - `names`: the column of names; it may be missing.

        **Raises:** `KeyError` naming the column that is missing.
        """
        masses, positions, velocities, labels = _columns_of(table, G=G, names=names)
        return cls(masses, positions, velocities, names=labels)

    def barycentric(self) -> "Bodies":
        """The same bodies about their barycenter, which is at rest.

        **Raises:** `ValueError` for bodies that have no mass at all.
        """
        m, x, v = self.masses, self.positions, self.velocities
        x, v = x - barycenter(m, x), v - barycenter(m, v)
        return type(self)(m, x, v, names=self.names)

    def relative_to(self, body: str | int) -> "Bodies":
        """The same bodies about one of them, which is at rest in the origin.

        That frame is not inertial: take it for tables, and `barycentric()` to run.

        **Arguments:** `body`, its name or its index.
        """
        row = body_index("body", body, self.names, self.masses.size)
        x, v = self.positions, self.velocities
        return type(self)(self.masses, x - x[row], v - v[row], names=self.names)

    def join(self, other: "Bodies", *, about: str | int | None = None) -> "Bodies":
        """These bodies and then `other`, in the frame of these.

        ```python
        moons = nbody.Bodies([4.7e-8], [[0.0028, 0, 0]], [[0, 0.01, 0]], names=["Io"])
        problems.outer_solar_system().bodies.join(moons, about="Jupiter").names
        ```

        **Arguments**

        - `other`: in the same frame, or as `about` says.
        - `about`: the body, by name or index, to which `other` is relative.

        **Raises:** `ValueError` for names on one side only, or twice.
        """
        x, v = other.positions, other.velocities
        if about is not None:
            row = body_index("about", about, self.names, self.masses.size)
            x, v = x + self.positions[row], v + self.velocities[row]
        return type(self)(
            jnp.concatenate([self.masses, other.masses]),
            jnp.concatenate([self.positions, x]),
            jnp.concatenate([self.velocities, v]),
            names=_joined_names(self.names, other.names),
        )

    def replace(self, body: str | int, group: "Bodies") -> "Bodies":
        """These with a group for one body, its barycenter where that body was.

        For ephemerides whose row of a planet is that of its system. Masses are those
        of the group.

        **Arguments:** `body`, its name or its index; `group`, in any frame.

        **Raises:** `ValueError` for names on one side only, or twice.
        """
        row = body_index("body", body, self.names, self.masses.size)
        group = group.barycentric()
        names = self.names and self.names[:row] + self.names[row + 1 :]
        parts = (
            (self.masses, group.masses),
            (self.positions, group.positions + self.positions[row]),
            (self.velocities, group.velocities + self.velocities[row]),
        )
        return type(self)(
            *(jnp.concatenate([a[:row], b, a[row + 1 :]]) for a, b in parts),
            names=_joined_names(names, group.names, row),
        )

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
        self.positions, self.velocities = as_phase(positions, velocities, None)
        self.names = as_names(names, self.positions.shape[0])

    @classmethod
    def from_elements(
        cls,
        bodies: Bodies,
        elements: Elements | NonsingularElements | Orbit,
        *,
        G: Numbers = 1.0,
        primary: str | int | None = 0,
        names: Sequence[str] | None = None,
    ) -> "TestParticles":
        """Test particles on orbits about one of the bodies, in the frame of these.

        ```python
        bodies = problems.outer_solar_system().bodies
        belt = nbody.Elements(semi_major_axis=jnp.linspace(2.1, 3.3, 20))
        G = nbody.G["au, Msun, day"]
        belt = nbody.TestParticles.from_elements(bodies, belt, G=G, primary="Sun")
        ```

        **Arguments**

        - `bodies`: those of the system.
        - `elements`: `Elements`, `NonsingularElements` or `Orbit`, of shape
            (test particle,).
        - `G`: that of `Gravity`.
        - `primary`: the body that they orbit, by name or index, GM = G m of it; None
            for the barycenter of all, GM = G Σm.
        - `names`: one a test particle.

        **Raises:** `ValueError` for a body that is not there.
        """
        m, x, v = bodies.masses, bodies.positions, bodies.velocities
        if primary is None:
            mass, origin = jnp.sum(m), (barycenter(m, x), barycenter(m, v))
        else:
            row = body_index("primary", primary, bodies.names, m.size)
            mass, origin = m[row], (x[row], v[row])
        relative = elements.state(as_floating("G", G) * mass)
        x, v = (a + start for a, start in zip(relative, origin, strict=True))
        return cls(x, v, names=names)


def _joined_names(
    first: tuple[str, ...] | None,
    second: tuple[str, ...] | None,
    row: int | None = None,
) -> tuple[str, ...] | None:
    """Names with others from `row` on, behind them by default."""
    if first is None and second is None:
        return None
    if first is None or second is None:
        raise ValueError(
            "names must be on both sides or on neither, got them on one: name the "
            "others too, Bodies(..., names=[...])"
        )
    row = len(first) if row is None else row
    return first[:row] + second + first[row:]


def _columns_of(table: Any, *, G: float, names: str):
    """Masses, positions, velocities and names from named columns."""
    keys = table.keys() if hasattr(table, "keys") else getattr(table, "columns", ())
    columns = {str(key).strip().lower(): str(key) for key in keys}

    def column(name):
        values = table[columns[name.lower()]]
        check_unitless(name, values)
        return np.atleast_1d(np.asarray(values))

    mass = column("mass") if "mass" in columns else column("GM") / G
    positions = np.stack([column(c) for c in "XYZ"], axis=-1)
    velocities = np.stack([column(c) for c in ("VX", "VY", "VZ")], axis=-1)
    labels = column(names).tolist() if names.lower() in columns else None
    return mass, positions, velocities, labels


class State(eqx.Module):
    """Public form of an N-body state; test particles follow the bodies.

    **Fields**

    - `positions`: shape (body, 3), or (time, body, 3) in a trajectory; length.
    - `velocities`: the same shape; length / time.
    """

    positions: Float[Array, "*time body 3"]
    velocities: Float[Array, "*time body 3"]


class BodyAxes(AbstractStateAxes):
    """Axes of an N-body `State`: bodies by their names, components x, y and z.

    ```python
    axes = nbody.BodyAxes(("Sun", "Jupiter", "Saturn", "Uranus", "Neptune"))
    trajectory = ds.simulate(problems.outer_solar_system(), [0.0, 10.0])
    axes.select(trajectory.states, "Saturn")  # as trajectory["Saturn"]
    axes.columns(trajectory.states).keys()
    ```

    `trajectory["Earth"]` has the states of that body; `Trajectory.to_xarray` has
    `positions` and `velocities` along (time, body, axis), and `Trajectory.to_dataframe`
    a row for each time and body, with columns x, y, z, vx, vy, vz.

    **Arguments**

    - `names`: one a body, test particles last; none numbers them in tables.
    """

    names: tuple[str, ...] = eqx.field(static=True)

    def variables(self, states: State, leading: int = 0) -> dict[str, Variable]:
        del leading
        axes = "body", "axis"
        return {
            "positions": (axes, states.positions),
            "velocities": (axes, states.velocities),
        }

    def coordinates(self) -> dict[str, Any]:
        names = {"body": list(self.names)} if self.names else {}
        return {**names, "axis": ["x", "y", "z"]}

    def columns(self, states: State, leading: int = 0) -> dict[str, Variable]:
        del leading
        parts = {"": states.positions, "v": states.velocities}
        return {
            f"{prefix}{axis}": (("body",), part[..., i])
            for prefix, part in parts.items()
            for i, axis in enumerate("xyz")
        }

    def select(self, states: State, name: str) -> State:
        row = self.names.index(name)
        return jax.tree.map(lambda a: a[..., row, :], states)
