"""Fields that follow from those of a state: speed, vorticity, probability."""

import numpy as np

from ..pde import FieldAxes, FourierBasis


#: Names of fields that are derived from channels.
SPEED, VORTICITY, PROBABILITY = "speed", "vorticity", "probability_density"
_WAVE_FUNCTION = ("psi_real", "psi_imag")


def known_names(place: FieldAxes) -> tuple[str, ...]:
    """Names of fields that are drawn: those of channels, and what follows from them."""
    more = ()
    if has_velocity(place):
        planar = place.grid.ndim == 2
        more = (SPEED, VORTICITY) if planar else (SPEED,)
    if place.names == _WAVE_FUNCTION:
        more = (PROBABILITY,)
    return tuple(dict.fromkeys((*place.names, *more)))


def default_name(place: FieldAxes) -> str:
    """The first field; of velocities the speed, of a wave function its density."""
    if place.names[0] == "velocity_x":
        return SPEED
    return PROBABILITY if place.names == _WAVE_FUNCTION else place.names[0]


def derived(name: str, state: np.ndarray, place: FieldAxes) -> np.ndarray:
    """A field of one state, shape (channel, *grid), by its name."""
    if name in place.names:
        return state[place.names.index(name)]
    if name == PROBABILITY:
        return np.sum(np.square(state), axis=0)
    velocity = velocity_of(state, place)
    if name == SPEED:
        return np.sqrt(np.sum(np.square(velocity), axis=0))
    return _slope(velocity[1], 0, place) - _slope(velocity[0], 1, place)


def has_velocity(place: FieldAxes) -> bool:
    """Whether states tell the velocity of a flow, directly or not."""
    return is_incompressible(place) or "momentum_x" in place.names[1:2]


def is_incompressible(place: FieldAxes) -> bool:
    """Whether half the square of the velocity is the energy per volume."""
    return place.names[0] == "velocity_x" or has_only_vorticity(place)


def has_only_vorticity(place: FieldAxes) -> bool:
    """Whether states are vorticities on a plane without boundaries."""
    periodic = {side for pair in place.boundary for side in pair} == {"Periodic"}
    return place.names == (VORTICITY,) and place.grid.ndim == 2 and periodic


def velocity_of(state: np.ndarray, place: FieldAxes) -> np.ndarray:
    """The velocity in the centers of cells, shape (axis, *grid)."""
    ndim = place.grid.ndim
    if place.names[0] == "velocity_x":
        return state[:ndim]
    if not has_only_vorticity(place):
        # Momentum stands behind the density, or behind the depth of shallow water.
        return state[1 : 1 + ndim] / state[0]
    modes = FourierBasis(place.grid)
    # The flow of mean zero, as in `pde.velocity`.
    stream = -modes.inverse_laplacian(modes.fft(state[0]))
    slopes = modes.derivative(1) * stream, -modes.derivative(0) * stream
    return np.stack([np.asarray(modes.ifft(slope)) for slope in slopes])


def _slope(field: np.ndarray, axis: int, place: FieldAxes) -> np.ndarray:
    """Derivative by differences of order 2, at boundaries from the cells inside."""
    spacing = float(place.grid.spacing[axis])
    if place.boundary[axis][0] == "Periodic":
        ahead, behind = (np.roll(field, step, axis) for step in (-1, 1))
        return (ahead - behind) / (2 * spacing)
    order = 2 if field.shape[axis] > 2 else 1
    return np.gradient(field, spacing, axis=axis, edge_order=order)
