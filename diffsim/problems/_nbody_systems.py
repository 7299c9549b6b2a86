"""The simulations of the table of problems."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from .. import nbody
from ._ephemerides import load_de440


#: au³/day², as Hairer, Lubich and Wanner (2006) give it, section I.2.3.
GM_SUN = 2.95912208286e-4

#: Mass, position in au, velocity in au/day: the same place.
_OUTER_PLANETS = (
    (1.00000597682, 0, 0, 0, 0, 0, 0),
    (0.000954786104043, -3.5023653, -3.8169847, -1.5507963)
    + (0.00565429, -0.00412490, -0.00190589),
    (0.000285583733151, 9.0755314, -3.0458353, -1.6483708)
    + (0.00168318, 0.00483525, 0.00192462),
    (0.0000437273164546, 8.3101420, -16.2901086, -7.2521278)
    + (0.00354178, 0.00137102, 0.00055029),
    (0.0000517759138449, 11.4707666, -25.7294829, -10.8169456)
    + (0.00288930, 0.00114527, 0.00039677),
)


def figure_eight() -> nbody.NBody:
    """Three equal masses that chase each other along an eight.

    ```python
    system, period = problems.figure_eight(), 6.32591398292621
    trajectory = ds.simulate(system, [0.0, period])
    jnp.diff(trajectory.states.positions, axis=0)  # 0: a closed curve
    ```
    """
    outer, middle = (0.97000435669734, -0.24308753153583), (0.0, 0.0)
    velocity = np.array([-0.93240737144104, -0.86473146092102, 0.0])
    positions = _planar([outer, (-outer[0], -outer[1]), middle])
    velocities = np.stack([-velocity / 2, -velocity / 2, velocity])
    return nbody.NBody(nbody.Bodies(np.ones(3), positions, velocities))


def pythagorean(*, x3: ArrayLike = 1.0) -> nbody.NBody:
    """Masses 3, 4, 5 that fall from the corners of a 3–4–5 triangle (Burrau 1913).

    ```python
    trajectory = ds.simulate(problems.pythagorean(), jnp.linspace(0.0, 10.0, 200))
    plots.orbits(trajectory)
    ```

    **Arguments**

    - `x3`: first coordinate of the mass 3.
    """
    positions = jnp.asarray(_planar([(1, 3), (-2, -1), (1, -1)])).at[0, 0].set(x3)
    masses = np.array([3.0, 4.0, 5.0])
    return nbody.NBody(nbody.Bodies(masses, positions, np.zeros((3, 3))))


def variations(*, a2: ArrayLike = 1.5, m2: ArrayLike = 1e-3) -> nbody.NBody:
    """A star, at rest at first, and two planets on circular orbits.

    ```python
    def speed(a2):  # of the star after ten orbits of the inner planet
        system = problems.variations(a2=a2)
        return ds.simulate(system, 20 * np.pi).states.velocities[0, 0]

    jax.jvp(speed, (1.5,), (1.0,))  # 4.924e-4, and its derivative, 0.02696
    ```

    **Arguments**

    - `a2`, `m2`: distance and mass of the outer planet.
    """
    masses = jnp.stack([jnp.asarray(1.0), jnp.asarray(1e-3), jnp.asarray(m2)])
    axes = jnp.stack([jnp.asarray(1.0), jnp.asarray(a2)])
    positions = jnp.zeros((3, 3)).at[1:, 0].set(axes)
    speeds = jnp.sqrt((1 + masses[1:]) / axes)
    return nbody.NBody(
        nbody.Bodies(masses, positions, jnp.zeros((3, 3)).at[1:, 1].set(speeds))
    )


def outer_solar_system() -> nbody.NBody:
    """Sun, Jupiter to Neptune about their barycenter; au, solar masses and G = 1.

    ```python
    system, times = problems.outer_solar_system(), jnp.linspace(0.0, 3000.0, 300)
    method = ds.Method(integrators.Leapfrog(), step=1.0)  # 75 a period of Jupiter
    plots.orbits(ds.simulate(system, times, method), unit="au")
    ```
    """
    table = np.array(_OUTER_PLANETS)
    masses, phase = table[:, 0], table[:, 1:]
    phase = phase - np.dot(masses, phase) / masses.sum()
    velocities = phase[:, 3:] / np.sqrt(GM_SUN)
    names = ("Sun", "Jupiter", "Saturn", "Uranus", "Neptune")
    return nbody.NBody(nbody.Bodies(masses, phase[:, :3], velocities, names=names))


def kepler(*, eccentricity: ArrayLike = 0.5) -> nbody.NBody:
    """Two bodies at pericenter at t = 0, their relative orbit of axis 1 and period 2π.

    ```python
    system = problems.kepler(eccentricity=0.9)
    x = ds.simulate(system, [0.0, np.pi, 2 * np.pi]).states.positions
    jnp.linalg.norm(x[:, 1] - x[:, 0], axis=-1)  # 0.1, 1.9, 0.1
    ```

    **Arguments**

    - `eccentricity`: of the relative orbit, below 1.
    """
    masses = np.array([0.75, 0.25])
    apart, speed = 1 - eccentricity, jnp.sqrt((1 + eccentricity) / (1 - eccentricity))
    shares = jnp.array([-0.25, 0.75])
    return nbody.NBody(
        nbody.Bodies(
            masses,
            jnp.zeros((2, 3)).at[:, 0].set(shares * apart),
            jnp.zeros((2, 3)).at[:, 1].set(shares * speed),
        )
    )


def kepler_orbit(time: float, eccentricity: float = 0.5) -> np.ndarray:
    """Relative position and velocity in the orbital plane of `kepler`, closed form.

    ```python
    states = ds.simulate(problems.kepler(), 5.0).states
    x = states.positions[1, :2] - states.positions[0, :2]
    x - problems.kepler_orbit(5.0)[:2]  # 0, to 13 digits
    ```

    **Arguments**

    - `time`: since pericenter.
    - `eccentricity`: of the relative orbit, below 1.

    **Returns:** (x, y, v_x, v_y) in float64, by Newton's method for Kepler's equation.
    """
    anomaly = np.float64(time)
    for _ in range(50):
        excess = anomaly - eccentricity * np.sin(anomaly) - time
        anomaly = anomaly - excess / (1 - eccentricity * np.cos(anomaly))
    c, s, minor = np.cos(anomaly), np.sin(anomaly), np.sqrt(1 - eccentricity**2)
    rate = 1 / (1 - eccentricity * c)
    return np.array([c - eccentricity, minor * s, -s * rate, minor * c * rate])


def mercury(*, primary: int | None = None) -> nbody.NBody:
    """Mercury at perihelion and the Sun, in the first post-Newtonian order.

    ```python
    system, times = problems.mercury(), [0.0, 8796.9]  # a hundred orbits, in days
    states = ds.simulate(system, times).states
    x, v = (y[:, 1] - y[:, 0] for y in (states.positions, states.velocities))
    orbit = nbody.Elements.from_state(x, v, gm=system.bodies.masses.sum())
    advance = jnp.diff(orbit.argument_of_pericenter)
    jnp.rad2deg(advance) * 3600 * 36525 / 8796.9  # 42.98 arcseconds a century
    ```

    **Arguments**

    - `primary`: as for `nbody.PostNewtonian`; None is the Einstein–Infeld–Hoffmann
        equation of all pairs.
    """
    a, e = 0.3870983098, 0.2056317524
    speed = np.sqrt(GM_SUN / a * (1 + e) / (1 - e))
    forces = nbody.Gravity(), nbody.PostNewtonian(173.144632674, primary=primary)
    bodies = nbody.Bodies(
        [GM_SUN, 0.0],
        _planar([(0, 0), (a * (1 - e), 0)]),
        _planar([(0, 0), (0, speed)]),
    )
    return nbody.NBody(bodies, forces)


def solar_system(*, relativity: bool = True) -> nbody.NBody:
    """Sun, planets, Moon and Pluto of DE440 at J2000; au, days, and masses that are GM.

    ```python
    table, system = problems.load_de440(), problems.solar_system(relativity=False)
    states = ds.simulate(system, table.epochs[:11]).states  # 100 days
    apart = jnp.linalg.norm(states.positions - table.positions[:11], axis=-1)
    apart[-1] * table.au_km  # of Mercury, which feels relativity, 14 km
    ```

    **Arguments**

    - `relativity`: whether Einstein–Infeld–Hoffmann forces act beside Newton's.
    """
    table = load_de440()
    forces = (nbody.Gravity(), nbody.PostNewtonian(table.c))
    return nbody.NBody(
        nbody.Bodies(
            table.gm, table.positions[0], table.velocities0, names=table.names
        ),
        forces if relativity else forces[:1],
    )


def _planar(points) -> np.ndarray:
    return np.pad(np.asarray(points, np.float64), ((0, 0), (0, 1)))
