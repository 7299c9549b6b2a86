"""Pictures of orders, sweeps and conserved quantities show their numbers."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import trajectory_of

from diffsim import nbody, pde, plots, sweeps, verify
from diffsim._results import RESULTS


# Orders.

STEPS = [0.4, 0.2, 0.1, 0.05]


def euler(h):
    """y' = -y to t = 2 by the explicit and the implicit rule's formula."""
    return jnp.asarray((1 - h) ** (2 / h))


@pytest.fixture(scope="module")
def orders():
    exact = jnp.exp(-2.0)
    return {
        "Euler": verify.convergence(euler, STEPS, exact=exact),
        "rounded": verify.convergence(lambda h: exact + h**4, STEPS, exact=exact),
    }


def test_legend_has_the_orders_of_the_convergence(orders):
    ax = plots.convergence(orders, label="time step")
    ax.figure.canvas.draw()
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == [f"{k}, order {found.order:.2f}" for k, found in orders.items()]
    assert ax.get_xlabel() == "time step" and ax.get_xscale() == "log"


def test_line_of_the_order_is_that_of_least_squares(orders):
    found = orders["Euler"]
    ax = plots.convergence(found)
    _, line, points, _ = ax.lines
    np.testing.assert_array_equal(points.get_xdata(), found.steps)
    np.testing.assert_array_equal(points.get_ydata(), found.errors)
    fit = np.polynomial.Polynomial.fit(np.log(found.steps), np.log(found.errors), 1)
    expected = np.exp(fit(np.log(line.get_xdata())))
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-10)


def test_errors_below_the_floor_are_hollow_and_apart():
    found = verify.convergence(euler, STEPS, exact=jnp.exp(-2.0), floor=0.1)
    hollow, *_, solid, _, floor = plots.convergence(found).lines
    below = found.errors <= 0.1
    assert 0 < below.sum() < 4
    np.testing.assert_array_equal(hollow.get_ydata(), found.errors[below])
    np.testing.assert_array_equal(solid.get_ydata(), found.errors[~below])
    assert hollow.get_markerfacecolor() == "white" and floor.get_ydata()[0] == 0.1


# Sweeps.


def made_sweep(over, outputs, failed):
    """A sweep as `ds.sweep` returns it."""
    status = jax.vmap(
        lambda x: RESULTS.where(x, RESULTS.unstable_steps, RESULTS.successful)
    )(jnp.asarray(failed))
    return sweeps.Sweep(over, outputs, status, {})


def test_sweep_over_one_parameter_is_a_line_in_its_order_with_crosses_for_failures():
    a = np.array([3.0, 1.0, 2.0, 4.0])
    failed = np.array([False, False, True, False])
    found = made_sweep({"rate": a}, np.where(failed, np.nan, a**2), failed)
    ax = plots.sweep(found, label="height [m]")
    ax.figure.canvas.draw()
    line, crosses = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(line.get_ydata(), [1, np.nan, 9, 16])
    np.testing.assert_array_equal(crosses.get_xdata(), [2])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rate", "height [m]")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["failed"]


def test_heat_map_has_the_outputs_at_their_parameters():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.1, 0.4, 0.5])
    over = sweeps.grid({"mass": x, "speed": y})
    shuffled = np.random.default_rng(1).permutation(12)
    over = {path: values[shuffled] for path, values in over.items()}
    failed = (over["mass"] == 2) & (over["speed"] == 0.5)
    outputs = np.stack([over["mass"] + 10 * over["speed"]] * 2, axis=1)
    found = made_sweep(over, np.where(failed[:, None], np.nan, outputs), failed)
    ax = plots.sweep(found, output=lambda z: z[:, 1], label="z [m]")
    ax.figure.canvas.draw()
    (mesh,) = ax.collections
    expected = x[None, :] + 10 * y[:, None]
    shown = mesh.get_array()
    assert shown.mask[2, 1] and shown.mask.sum() == 1
    shown.mask[2, 1] = False
    keep = np.ones((3, 4), bool)
    keep[2, 1] = False
    np.testing.assert_allclose(shown.data[keep], expected[keep])
    # Of even ratios the edges are geometric means, and the axis is logarithmic.
    edges = mesh.get_coordinates()
    np.testing.assert_allclose(edges[0, :, 0], x[0] * 2.0 ** np.arange(-0.5, 4))
    np.testing.assert_allclose(edges[:, 0, 1], [-0.05, 0.25, 0.45, 0.55])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    (cell,) = ax.patches
    assert cell.get_hatch() and cell.get_bbox().contains(2.0, 0.5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("mass", "speed")
    assert mesh.colorbar.ax.get_ylabel() == "z [m]"


def test_draws_of_two_parameters_are_points_with_crosses_for_failures():
    failed = np.array([False, True, False, False])
    values = np.where(failed, np.nan, [1.0, 2.0, 3.0, 4.0])
    ax = plots.sweep(made_sweep(PAIRS, values, failed), label="z [m]")
    points, crosses = ax.collections
    np.testing.assert_array_equal(points.get_offsets()[:, 0], [0, 2, 3])
    np.testing.assert_array_equal(points.get_array(), [1, 3, 4])
    np.testing.assert_array_equal(crosses.get_offsets(), [[1, 1]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")
    assert points.colorbar.ax.get_ylabel() == "z [m]"


def test_outputs_that_are_not_finite_are_marked_as_such():
    found = made_sweep({"a": np.arange(3.0)}, np.arange(3.0), np.zeros(3, bool))
    with np.errstate(divide="ignore"):
        ax = plots.sweep(found, output=np.log)
    assert ax.lines[1].get_label() == "failed or not finite"
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), [0])


PAIRS = {"a": np.arange(4.0), "b": np.arange(4.0)}


@pytest.mark.parametrize(
    ("over", "outputs", "said"),
    [
        ({"a": np.ones((4, 2))}, np.ones(4), "parameters must be one number a run"),
        (PAIRS | {"c": np.ones(4)}, np.ones(4), "number of parameters of found"),
        ({"a": np.ones(4)}, np.ones((4, 2)), "output must give one number a run"),
        ({"a": np.ones(4)}, {"x": np.ones(4)}, "output must give one number a run"),
        ({"a": np.ones(4)}, 1j * np.ones(4), "output must give real numbers"),
    ],
)
def test_sweeps_that_no_picture_shows_raise_value_error(over, outputs, said):
    with pytest.raises(ValueError, match=said):
        plots.sweep(made_sweep(over, outputs, np.zeros(4, bool)))
    with pytest.raises(ValueError, match=r"found must be .* ds\.sweep returns"):
        plots.sweep(outputs)


# Conserved quantities.


SYSTEM = nbody.NBody(
    nbody.Bodies([2.0, 1.0], [[0, 0, 0], [1.0, 0, 0]], [[0, -0.5, 0], [0, 1.0, 0]])
)
V = jnp.asarray([[[0, -0.5, 0], [0, c, 0]] for c in (1.0, 1.01, 1.02)])
X = jnp.tile(jnp.asarray([[0, 0, 0], [1.0, 0, 0]]), (3, 1, 1))
MOVED = trajectory_of(nbody.State(X, V))


def lines_of(ax):
    return {line.get_label(): line.get_ydata() for line in ax.lines}


def test_changes_of_conserved_quantities_are_relative_to_their_size():
    ax = plots.conservation(MOVED, SYSTEM, label="time [d]")
    ax.figure.canvas.draw()
    found, speed = lines_of(ax), V[:, 1, 1]
    energy = 0.5 * (2 * 0.25 + speed**2) - 2.0
    change = np.abs(energy - energy[0]) / np.max(np.abs(energy))
    np.testing.assert_allclose(found["energy"], change[1:], rtol=1e-10)
    # The sum starts at zero: 2 · 0.5 against 1 · 1.
    np.testing.assert_allclose(found["momentum"], [0.01 / 2.02, 0.02 / 2.02])
    np.testing.assert_allclose(found["angular momentum"], [0.01 / 1.02, 0.02 / 1.02])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 2])
    assert ax.get_xlabel() == "time [d]" and ax.get_yscale() == "log"


def test_what_is_conserved_to_the_last_bit_is_drawn_at_a_tick_named_zero():
    still = trajectory_of(nbody.State(X, jnp.tile(V[:1], (3, 1, 1))))
    ax = plots.conservation(still, SYSTEM)
    edge = ax.get_ylim()[0]
    for name in ("energy", "momentum", "angular momentum"):
        np.testing.assert_array_equal(lines_of(ax)[name], [edge, edge])
    assert ax.get_yticks()[0] == edge < np.finfo(float).eps
    assert ax.get_yticklabels()[0].get_text() == "0"
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words[-1] == "machine epsilon"


def test_integrals_of_a_field_are_relative_to_that_of_its_modulus():
    grid = pde.Grid(4)
    u = jnp.array([[[1.0, -1, 1, -1]], [[1.0, -1, 1, -1.5]]])
    diffusion = pde.Evolution(pde.Diffusion(1.0), u[0], grid, pde.Periodic())
    ax = plots.conservation(trajectory_of(u), diffusion)
    np.testing.assert_allclose(lines_of(ax)["integral"], [0.5 / 4.5])
    assert "energy" not in lines_of(ax)


def test_energy_of_an_equation_is_drawn_where_it_has_one():
    grid = pde.Grid(4)
    u = jnp.array([[[0.0] * 4, [1.0] * 4], [[0.0] * 4, [1.1] * 4]])
    wave = pde.Evolution(pde.Wave(1.0), u[0], grid, pde.Periodic())
    found = lines_of(plots.conservation(trajectory_of(u), wave))
    np.testing.assert_allclose(found["energy"], [(1.21 - 1) / 1.21])
    np.testing.assert_allclose(found["integral of channel 1"], [0.1 / 1.1])


def test_named_quantities_are_drawn_in_place_of_known_ones():
    twice = {"spin": lambda state: state.velocities[1]}
    ax = plots.conservation(MOVED, quantities=twice, ax=plt.figure().add_subplot())
    np.testing.assert_allclose(lines_of(ax)["spin"], [0.01 / 1.02, 0.02 / 1.02])


def test_runs_drawn_into_one_axes_have_colors_of_their_own():
    ax = None
    for name in ("first", "second"):
        quantity = {name: lambda state: state.positions.sum() + 1}
        ax = plots.conservation(MOVED, quantities=quantity, ax=ax)
    first, second = (
        line for line in ax.lines if line.get_label() in ("first", "second")
    )
    assert first.get_color() != second.get_color()
    _, words = ax.get_legend_handles_labels()
    assert sorted(words) == ["first", "machine epsilon", "second"]


def test_parameters_of_a_sweep_have_labels_with_units():
    found = sweeps.sweep(lambda x: x["D"], {"D": jnp.ones(())}, {"D": [1.0, 2.0]})
    ax = found.plot(labels={"D": "D [m²/s]"}, label="T [K]")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("D [m²/s]", "T [K]")
