"""Trajectories of every kind as datasets and tables with named axes."""

import sys

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import nbody, pde, simulations


pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")

TIMES = np.array([0.0, 0.05, 0.1])
#: To compile.
QUICK = ds.Method(diffrax.Euler(), 0.05)


@pytest.fixture(scope="module")
def orbit():
    bodies = nbody.Bodies(
        [1.0, 1e-3],
        [[0.0, 0, 0], [1, 0, 0]],
        [[0.0, 0, 0], [0, 1, 0.2]],
        names=("Star", "b"),
    )
    dust = nbody.TestParticles([[2.0, 0, 0]], [[0, 0.7, 0]], names=("dust",))
    return ds.simulate(nbody.NBody(bodies, test_particles=dust), TIMES, QUICK)


@pytest.fixture(scope="module")
def gas():
    grid = pde.Grid((6, 4), (0.0, -1.0), (3.0, 1.0))
    law = pde.Euler(1.4)
    density = 1 + 0.1 * jnp.sin(2 * jnp.pi * grid.centers[0] / 3)
    start = law.state(density, 0.0, 1.0)
    return ds.simulate(pde.Evolution(law, start, grid, pde.Outflow()), TIMES, QUICK)


def test_dataset_of_bodies_has_their_names_and_numbers(orbit):
    dataset = orbit.to_xarray()
    assert dict(dataset.sizes) == {"time": 3, "body": 3, "axis": 3}
    assert dataset.body.values.tolist() == ["Star", "b", "dust"]
    np.testing.assert_array_equal(dataset.time, TIMES)
    for name in ("positions", "velocities"):
        assert dataset[name].dims == ("time", "body", "axis")
        np.testing.assert_array_equal(dataset[name], getattr(orbit.states, name))
    one = dataset.velocities.sel(body="b", axis="z", time=0.0).item()
    assert one == pytest.approx(0.2, rel=1e-15)
    assert dataset.attrs["result"] == "successful"


def test_table_of_bodies_has_a_row_for_each_time_and_body(orbit):
    table = orbit.to_dataframe()
    assert list(table) == ["x", "y", "z", "vx", "vy", "vz"]
    assert table.index.names == ["time", "body"] and len(table) == 9
    np.testing.assert_array_equal(
        table.xs("b", level="body")[["x", "y", "z"]], orbit.states.positions[:, 1]
    )
    assert table.loc[(0.1, "dust"), "vy"] == orbit.states.velocities[2, 2, 1]


def test_dataset_of_fields_has_centers_of_cells_as_coordinates(gas):
    dataset = gas.to_xarray()
    assert list(dataset) == ["density", "momentum_x", "momentum_y", "energy"]
    assert dataset.energy.dims == ("time", "x", "y")
    np.testing.assert_allclose(dataset.x, np.linspace(0.25, 2.75, 6), rtol=1e-15)
    np.testing.assert_allclose(dataset.y, [-0.75, -0.25, 0.25, 0.75], rtol=1e-15)
    np.testing.assert_array_equal(dataset.momentum_y, gas.states[:, 2])
    table = gas.to_dataframe()
    assert table.index.names == ["time", "x", "y"] and len(table) == 3 * 6 * 4
    np.testing.assert_array_equal(table["energy"], np.ravel(gas.states[:, 3]))


def test_trajectory_is_indexed_by_bodies_and_by_fields(orbit, gas):
    assert orbit.names == ("Star", "b", "dust")
    np.testing.assert_array_equal(orbit["b"].positions, orbit.states.positions[:, 1])
    np.testing.assert_array_equal(gas["density"], gas.states[:, 0])
    with pytest.raises(KeyError, match="trajectory has density, momentum_x"):
        gas["pressure"]


def test_obstacle_is_a_coordinate_of_its_flow():
    grid = pde.Grid((16, 8), (0.0, 0.0), (2.0, 1.0))
    ball = pde.Obstacle(pde.Ball((0.75, 0.5), 0.2), mask_width=0.1)
    walls = (pde.Inflow((1.0, 0.0)), pde.Outflow()), pde.NoSlip()
    flow = pde.IncompressibleFlow(0.1, grid, walls, obstacle=ball)
    trajectory = ds.simulate(flow, 0.01)
    dataset = trajectory.to_xarray()
    assert list(dataset) == ["velocity_x", "velocity_y"]
    x, y = np.asarray(grid.centers)
    distance = ((x - 0.75) ** 2 + (y - 0.5) ** 2 - 0.2**2) / 0.4
    inside = (1 - np.tanh(distance / 0.1)) / 2
    np.testing.assert_allclose(dataset.solid, inside, rtol=1e-12, atol=1e-15)
    # One time has no axis.
    assert dataset.velocity_x.dims == ("x", "y") and dataset.time.item() == 0.01
    assert trajectory.to_dataframe().index.names == ["x", "y"]


_EQUATIONS = [
    (pde.Diffusion(1.0), 3),
    (pde.AdvectionDiffusion(0.1, (1.0, 0.0)), 2),
    (pde.Burgers(0.1), 2),
    (pde.FisherKPP(1.0), 1),
    (pde.GrayScott(0.04, 0.06), 2),
    (pde.AllenCahn(1.0), 2),
    (pde.CahnHilliard(1.0, 0.1), 2),
    (pde.KortewegDeVries(), 1),
    (pde.KuramotoSivashinsky(), 1),
    (pde.NavierStokesVorticity(0.1), 2),
    (pde.NavierStokesVelocity(0.1), 3),
    (pde.Euler(), 3),
    (pde.ShallowWater(), 2),
    (pde.Wave(1.0), 2),
    (pde.Schrodinger(), 1),
]


@pytest.mark.parametrize(
    ("equation", "ndim"), _EQUATIONS, ids=lambda x: type(x).__name__
)
def test_every_channel_of_every_equation_has_a_name_of_its_own(equation, ndim):
    names = equation.channel_names(ndim)
    assert len(set(names)) == equation.channels(ndim)
    listed = {type(known) for known, _ in _EQUATIONS}
    public = [getattr(pde, name) for name in pde.__all__]
    concrete = {
        kind
        for kind in public
        if isinstance(kind, type)
        and issubclass(kind, pde.AbstractEquation)
        and not kind.__name__.startswith("Abstract")
    }
    assert listed == concrete


class Pendulum(ds.AbstractSimulation):
    """A state of two arrays, with and without names."""

    axes: simulations.StateAxes | None
    t0: float = 0.0

    def initial_state(self):
        return {"angle": jnp.ones(2), "rate": jnp.zeros(2)}

    def terms(self):
        return diffrax.ODETerm(
            lambda t, y, args: {"angle": y["rate"], "rate": -jnp.sin(y["angle"])}
        )

    def default_method(self):
        return ds.Method(diffrax.Tsit5())

    def state_axes(self):
        return self.axes


class Swept(Pendulum):
    """With a number to sweep."""

    length: jax.Array = eqx.field(converter=jnp.asarray, default=1.0)

    def initial_state(self):
        return {"angle": jnp.full(2, self.length), "rate": jnp.zeros(2)}


def test_states_without_axes_are_named_by_their_place_in_the_pytree():
    dataset = ds.simulate(Pendulum(None), TIMES).to_xarray()
    assert dataset.angle.dims == ("time", "angle_axis_0")
    assert dataset.rate.dims == ("time", "rate_axis_0")
    pair = simulations.StateAxes.from_pytree((jnp.zeros(2), {"a": jnp.zeros(3)}))
    assert pair.names == ("state[0]", "state[1].a")
    assert simulations.StateAxes.from_pytree(jnp.zeros(3)).names == ("state",)


def test_simulation_names_its_own_states_and_axes():
    axes = simulations.StateAxes(
        ("theta", "omega"),
        axes={"theta": ["pendulum"], "omega": ["pendulum"]},
        entries={"pendulum": ["left", "right"]},
    )
    trajectory = ds.simulate(Pendulum(axes), TIMES)
    table = trajectory.to_dataframe()
    assert table.index.names == ["time", "pendulum"]
    np.testing.assert_array_equal(
        table.xs("right", level="pendulum")["theta"], trajectory.states["angle"][:, 1]
    )
    np.testing.assert_array_equal(trajectory["omega"], trajectory.states["rate"])


@pytest.mark.parametrize(
    ("axis", "entries"),
    first_plain(
        [
            (["pendulum"], ["left", "right"]),
            ("pendulum", (0.5, 1.5)),
            ("pendulum", ("left", "right")),
            (("pendulum",), np.array(["left", "right"])),
            ("pendulum", ("left", 2)),
            (("pendulum",), [0.5, 1.5]),
            ("pendulum", range(2)),
            ("pendulum", np.array([0.5, 1.5])),
            ("pendulum", jnp.array([0.5, 1.5])),
        ],
        2,
    ),
)
def test_entries_of_every_kind_are_coordinates(entries, axis, tmp_path):
    axes = dict.fromkeys(("theta", "omega"), axis)
    axes = simulations.StateAxes(tuple(axes), axes=axes, entries={"pendulum": entries})
    trajectory = ds.simulate(Pendulum(axes), TIMES)
    dataset = trajectory.to_xarray()
    wanted = np.asarray(entries).tolist()
    assert dataset.theta.dims == ("time", "pendulum")
    assert dataset.pendulum.values.tolist() == wanted
    ds.save(tmp_path / "run.ds", trajectory)
    assert ds.load(tmp_path / "run.ds").to_xarray().identical(dataset)
    table = ds.simulate(Pendulum(axes), 0.1).to_dataframe()
    assert table.index.tolist() == wanted
    many = ds.sweep(lambda m: ds.simulate(m, TIMES), Swept(axes), {"length": TIMES + 1})
    assert many.to_xarray().pendulum.identical(dataset.pendulum)


class Labels(simulations.StateAxes):
    """Axes of a user, with labels in a tuple."""

    def coordinates(self):
        return {"pendulum": ("left", "right")}


def test_tuple_of_labels_of_other_axes_is_a_coordinate():
    axes = Labels(("theta", "omega"), axes={"theta": "pendulum", "omega": "pendulum"})
    dataset = ds.simulate(Pendulum(axes), TIMES).to_xarray()
    assert dataset.pendulum.values.tolist() == ["left", "right"]


@pytest.mark.parametrize("method", ["to_xarray", "to_dataframe", "plot"])
@pytest.mark.parametrize(
    ("axis", "entries", "words"),
    [
        ("s", ["a"], "entries of the axis 's' must be 2, as many as theta has"),
        ("s", "ab", r"entries of the axis 's' must be 2, .* got \('ab',\)"),
        ("s", ["a", "b", "c"], "entries of the axis 's' must be 2, as many as theta"),
        ("s", [0.5], "entries of the axis 's' must be 2, as many as theta has"),
        ("s", [[0.5, 1.5]], "entries of the axis 's' must be 2, as many as theta has"),
        (["s", "t"], [0, 1], r"axes of theta must be 2 .* shape \(3, 2\), got .*'t'"),
        ("time", [0, 1, 2], r"axes of theta must be 2 different names.*'time', 'time'"),
    ],
)
def test_axes_that_do_not_fit_raise_value_error(method, axis, entries, words):
    axes, name = {"theta": axis, "omega": axis}, axis[0] if axis[1:] == ["t"] else axis
    axes = simulations.StateAxes(tuple(axes), axes=axes, entries={name: entries})
    with pytest.raises(ValueError, match=words):
        getattr(ds.simulate(Pendulum(axes), TIMES), method)()


@pytest.mark.parametrize("which", ["orbit", "gas"])
def test_datasets_are_read_back_from_netcdf(which, request, tmp_path):
    dataset = request.getfixturevalue(which).to_xarray()
    dataset.to_netcdf(tmp_path / "run.nc")
    assert xarray.load_dataset(tmp_path / "run.nc").identical(dataset)


@pytest.mark.parametrize("which", ["orbit", "gas"])
def test_tables_are_read_back_from_text(which, request, tmp_path):
    table = request.getfixturevalue(which).to_dataframe()
    table.to_csv(tmp_path / "run.csv")
    levels = list(range(table.index.nlevels))
    again = pandas.read_csv(tmp_path / "run.csv", index_col=levels)
    # The parser of older releases of pandas is off by a few ulp.
    pandas.testing.assert_frame_equal(again, table, rtol=1e-14, atol=0)


def test_axes_are_saved_with_their_trajectory(gas, orbit, tmp_path):
    for trajectory in (gas, orbit):
        ds.save(tmp_path / "run.ds", trajectory)
        again = ds.load(tmp_path / "run.ds")
        assert again.to_xarray().identical(trajectory.to_xarray())


def test_axes_pass_through_jit_and_vmap():
    grid = pde.Grid(8)
    model = pde.Evolution(pde.Diffusion(0.1), jnp.ones(8), grid, pde.Dirichlet(0.0))

    def run(scale):
        start = pde.Evolution(
            model.equation, scale * model.initial, grid, model.boundary
        )
        return ds.simulate(start, TIMES, QUICK)

    many = jax.jit(jax.vmap(run))(jnp.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="trajectory must be one, got a batch"):
        many.to_xarray()
    second = jax.tree.map(lambda x: x[1], many).to_xarray()
    np.testing.assert_array_equal(second.u, many.states[1, :, 0])
    np.testing.assert_allclose(second.x, (np.arange(8) + 0.5) / 8)

    with pytest.raises(ValueError, match="trajectory is traced, and its numbers"):
        jax.jit(lambda scale: run(scale).to_xarray())(1.0)


def test_other_observables_have_no_axes(orbit):
    bodies = nbody.Bodies([1.0], [[0.0, 0, 0]], [[0.0, 0, 0]], names=("Star",))
    found = ds.simulate(
        nbody.NBody(bodies), TIMES, QUICK, observe=lambda t, y: y[0][0, :2]
    )
    assert found.axes is None
    assert found.to_xarray().state.dims == ("time", "state_axis_0")


@pytest.mark.parametrize(
    ("names", "axis", "twice"),
    [
        (("time", "b"), "s", "time"),
        (("a", "b"), "a", "a"),
        (("a", "b"), "b", "b"),
    ],
)
def test_arrays_with_the_name_of_an_axis_raise_value_error(names, axis, twice):
    axes = simulations.StateAxes(names, axes=dict.fromkeys(names, axis))
    with pytest.raises(ValueError, match=rf"a table .* several named \['{twice}'\]"):
        ds.simulate(Pendulum(axes), TIMES).to_xarray()


def test_arrays_along_different_axes_make_no_table():
    axes = simulations.StateAxes(("angle", "rate"), axes={"angle": ["pendulum"]})
    with pytest.raises(ValueError, match="to_dataframe needs arrays along the same"):
        ds.simulate(Pendulum(axes), TIMES).to_dataframe()


def test_invalid_names_raise_value_error():
    with pytest.raises(ValueError, match=r"names must differ, got \('a', 'a'\)"):
        simulations.StateAxes(("a", "a"))
    with pytest.raises(ValueError, match="names must be one for each array"):
        ds.simulate(Pendulum(simulations.StateAxes("a")), TIMES).to_xarray()


@pytest.mark.parametrize(
    ("package", "method"), [("xarray", "to_xarray"), ("pandas", "to_dataframe")]
)
def test_missing_package_raises_import_error(package, method, orbit, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        getattr(orbit, method)()
