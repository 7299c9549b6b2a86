"""`NBody`: bodies under forces."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._jaxpr._inspection import depends_on_first
from .._jaxpr._tracing import explain_tracer_errors
from .._jit._fresh_jit import fresh_jit
from .._types import Numbers, PyTree
from .._validation import array_of, as_floating, count, function_of, instance
from ..simulations import AbstractSimulation, Method, Separable
from ._bodies import Bodies, BodyAxes, State, TestParticles
from ._bodies_arguments import as_names
from ._default_method import adaptive_method
from ._forces import AbstractForce, Gravity, PostNewtonian
from ._rebound import particles_of, rebound_simulation
from ._run_checks import check_apart_at_start, check_steps_by_orbits, closest_pair


if TYPE_CHECKING:
    import rebound


Force = AbstractForce | Callable[..., Any]


class NBody(AbstractSimulation):
    r"""Bodies, and test particles if any, under the sum of `forces`.

    $$\dot x_i = v_i, \qquad \dot v_i = \sum_{\text{forces}} a_i(t, x, v)$$

    ```python
    orbits = nbody.Elements(semi_major_axis=[1.0, 5.2], eccentricity=[0.017, 0.05])
    G = nbody.G["au, Msun, yr"]
    bodies = nbody.Bodies.from_elements([1.0, 3e-6, 1e-3], orbits, G=G)
    forces = nbody.Gravity(G), lambda t, state: -1e-3 * state.velocities
    ds.simulate(nbody.NBody(bodies, forces), jnp.linspace(0.0, 12.0, 50)).states
    ```

    **Arguments**

    - `bodies`: masses and initial conditions at `t0`.
    - `forces`: a force or a sequence of them; None is `Gravity()` with G = 1. A force
        is one of ours, or any `force(t, state) -> accelerations (body, 3)`, an Equinox
        module with parameters for instance; it may ignore `state.velocities`, and then
        symplectic solvers run it.
    - `test_particles`: massless bodies; in states they follow the bodies.
    - `gravity`: False says that forces without `Gravity` are meant, which otherwise are
        warned of.
    - `t0`: the epoch. A Python float is static under `eqx.filter_jit`; `jax.jit`
        traces it, and fixed steps then need `Method(max_steps=...)`.

    States are `State(positions, velocities)` with arrays of shape (body, 3).

    **Good values:** `Leapfrog` at 1/30 of the shortest period for pictures, `Yoshida6`
    or `Yoshida8` for energies, what `recommend_method` prints for orbits, the default
    method where nothing is known.

    **Raises:** `ValueError` for two `Gravity` forces, or `PostNewtonian` without one
        or about a body that is not there, or `gravity=False` beside `Gravity`.
    """

    bodies: Bodies
    forces: tuple[Force, ...]
    test_particles: TestParticles | None
    t0: float | Array

    free: ClassVar[tuple[str, ...] | None] = ("bodies",)

    def __init__(
        self,
        bodies: Bodies,
        forces: Force | Sequence[Force] | None = None,
        *,
        test_particles: TestParticles | None = None,
        t0: float | Numbers = 0.0,
        gravity: bool = True,
    ):
        example = "nbody.Bodies(masses, positions, velocities)"
        self.bodies = instance("bodies", bodies, Bodies, example)
        count("the number of bodies", bodies.masses.size)
        self.forces = _as_forces(forces, bodies.masses.size, gravity=gravity)
        if test_particles is not None:
            example = "nbody.TestParticles(positions, velocities)"
            instance("test_particles", test_particles, TestParticles, example)
            names = (bodies.names or ()) + (test_particles.names or ())
            as_names(names, len(names))
        self.test_particles = test_particles
        self.t0 = float(t0) if isinstance(t0, float | int) else as_floating("t0", t0)

    @classmethod
    def from_rebound(cls, simulation: Any) -> "NBody":
        """The bodies, names, G, softening and time of a `rebound.Simulation`.

        Massless particles beyond `N_active` are test particles. REBOUND is not
        imported, only its attributes are read. What stays behind: the integrator,
        variations, radii, hashes, exit distances and, with a warning, additional
        forces.

        **Raises:** `ValueError` for what would change the run: a `boundary`, ghost
        boxes, a `collision` search, a `gravity` other than Newton's, mass beyond
        `N_active`; and for a simulation without particles.
        """
        masses, positions, velocities, names = particles_of(simulation)
        n = masses.size if simulation.N_active < 0 else simulation.N_active
        heavy, light = (None, None) if names is None else (names[:n], names[n:])
        test_particles = None
        if masses.size > n:
            test_particles = TestParticles(positions[n:], velocities[n:], names=light)
        return cls(
            Bodies(masses[:n], positions[:n], velocities[:n], names=heavy),
            Gravity(simulation.G, simulation.softening),
            test_particles=test_particles,
            t0=float(simulation.t),
        )

    def to_rebound(self) -> "rebound.Simulation":
        """A `rebound.Simulation` of these bodies: G, softening, time, names.

        Test particles are massless particles beyond `N_active`. In double precision, by
        REBOUND's default integrator until you choose another.

        **Raises:** `ValueError` for forces other than `Gravity`, and while tracing;
        `ImportError` with the `pip` command where REBOUND is missing.
        """
        return rebound_simulation(self)

    def state_axes(self) -> BodyAxes:
        return BodyAxes(self.body_names or ())

    @property
    def body_names(self) -> tuple[str, ...] | None:
        """Names of bodies and then of test particles, None if one of them has none."""
        if self.test_particles is None or self.bodies.names is None:
            return self.bodies.names
        more = self.test_particles.names
        return None if more is None else self.bodies.names + more

    @property
    def gravity(self) -> Gravity | None:
        """The force that holds G and the softening, if there is one."""
        return next((f for f in self.forces if isinstance(f, Gravity)), None)

    def initial_state(self) -> tuple[Array, Array]:
        starts = (
            [self.bodies]
            if self.test_particles is None
            else [self.bodies, self.test_particles]
        )
        x = jnp.concatenate([start.positions for start in starts])
        v = jnp.concatenate([start.velocities for start in starts])
        return x.T, v.T

    def terms(self) -> diffrax.AbstractTerm[Any, Any]:
        x, _ = jax.eval_shape(self.initial_state)
        attraction = TotalAcceleration(self)
        if any(_is_velocity_dependent(force, x) for force in self.forces):
            return diffrax.ODETerm(_VectorField(attraction))
        return Separable(_drift, _Kick(attraction))

    def default_method(self) -> Method:
        """Adaptive Dormand–Prince 8(7), for an error of 1e-9 after 100 periods.

        Of the innermost distance, in double precision: 1.6e-10 for two planets,
        3.2e-10 for the Sun and nine planets after 50 years, against REBOUND's IAS15;
        derivatives at most 7.6e-9 of the largest of their row. In single precision
        2e-2 for two planets.

        A step errs by at most 1e-14 of the distance and the speed of the pair that is
        closest at `t0`, in single precision 1.2e-7, and by no less than the rounding of
        that distance. Of more than 64 bodies that attract, whose orbits are chaotic, by
        1e-10 of the typical distance and speed; without `Gravity` by 1.8e-14 of them.
        Which of these is a matter of the kinds of forces, the number of bodies and
        their dtype, never of values, so that it is the same under `jit`.
        """
        return _default_method(self)

    def check_method(self, method: Method, duration: float | None = None) -> None:
        del duration
        check_steps_by_orbits(self, method)
        check_apart_at_start(self, method)

    def locate(self, t: Any, y: PyTree) -> str | None:
        return closest_pair(self, t, y)

    def observe(self, t: Any, y: PyTree) -> State:
        del t
        x, v = y
        return State(x.T, v.T)


class TotalAcceleration(eqx.Module):
    """The forces of a system with G m worked out, once a run and not once a step."""

    forces: tuple[Force, ...]
    gm: Array

    def __init__(self, system: NBody):
        G = 1.0 if system.gravity is None else system.gravity.G
        self.forces = system.forces
        self.gm = G * system.bodies.masses

    def __call__(self, t, x, v=None):
        """Sum of all accelerations, component first; `v` None if nothing reads it."""
        gm = self.gm.astype(x.dtype)
        return sum(
            force.acceleration(t, x, v, gm)
            if isinstance(force, AbstractForce)
            else user_acceleration(force, t, x, v)
            for force in self.forces
        )


class _VectorField(eqx.Module):
    attraction: TotalAcceleration

    def __call__(self, t, y, args):
        x, v = y
        return v, self.attraction(t, x, v)


class _Kick(eqx.Module):
    attraction: TotalAcceleration

    def __call__(self, t, x, args):
        return self.attraction(t, x)


def _drift(t, v, args):
    return v


def _as_forces(forces: Any, bodies: int, *, gravity: bool) -> tuple[Force, ...]:
    if forces is None:
        forces = (Gravity(),)
    forces = tuple(forces) if isinstance(forces, Sequence) else (forces,)
    count("the number of forces", len(forces), hint="None is Gravity() with G = 1")
    for force in forces:
        if isinstance(force, type):
            instance("forces", force, AbstractForce, "nbody.Gravity()")
        elif not isinstance(force, AbstractForce):
            function_of(callable_name(force), force, ("t", "state"))
    held = sum(isinstance(force, Gravity) for force in forces)
    relativistic = [force for force in forces if isinstance(force, PostNewtonian)]
    if held > 1 or (relativistic and not held):
        raise ValueError(
            f"forces must hold one Gravity, got {held}: PostNewtonian corrects it"
        )
    for force in relativistic:
        # JAX would take the last body for an index beyond it.
        if force.primary is not None and force.primary >= bodies:
            raise ValueError(
                f"PostNewtonian has primary={force.primary}, and there are {bodies} "
                "bodies, counted from 0; take one of those, or None for all pairs"
            )
    if held and not gravity:
        raise ValueError("gravity=False contradicts forces, which are or hold Gravity")
    if gravity and not held:
        listed = ", ".join(callable_name(force) for force in forces)
        warnings.warn(
            f"forces are {listed} alone, so the bodies do not attract each other: "
            f"give (nbody.Gravity(), {listed}), or NBody(..., gravity=False)",
            # this function, __init__, Equinox's constructor, the caller
            stacklevel=4,
        )
    return forces


@fresh_jit
def _default_method(system: NBody) -> Method:
    x, v = system.initial_state()
    a = jnp.asarray(TotalAcceleration(system)(system.t0, x, v))
    if system.gravity is None:
        return adaptive_method((x, v), a, 0, 0.0)
    massive = system.bodies.masses.size
    return adaptive_method((x, v), a, massive, system.gravity.softening)


def user_acceleration(force: Callable[..., Any], t, x, v):
    """`force(t, state)` as a component-first array; `v` None if it depends on none."""
    state = State(x.T, jnp.full_like(x, jnp.nan).T if v is None else v.T)
    name = f"the acceleration by {callable_name(force)}"
    with explain_tracer_errors("force", force):
        acceleration = _call(force, t, state)
    return array_of(name, acceleration, (x.shape[1], 3)).astype(x.dtype).T


def _call(force: Callable[..., Any], t, state):
    try:
        return force(t, state)
    except AttributeError as error:
        # The time is a number, also where a force was traced with another.
        taken: Any = getattr(error, "obj", None)
        if not eqx.is_array(taken) or taken.shape != ():
            raise
        raise ValueError(
            f"{callable_name(force)} reads .{error.name} of the time: a force takes "
            "the time first, force(t, state)"
        ) from error


def callable_name(force: Any) -> str:
    """Name of a force, for a sentence."""
    return getattr(force, "__name__", type(force).__name__)


def _is_velocity_dependent(force: Force, x: jax.ShapeDtypeStruct) -> bool:
    if isinstance(force, AbstractForce):
        return force.velocity_dependent
    t = jax.ShapeDtypeStruct((), x.dtype)
    return depends_on_first(lambda v, t, x: user_acceleration(force, t, x, v), x, t, x)
