"""Products and leading modes of Fisher information against dense matrices."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import first_plain

import diffsim as ds
from diffsim import integrators, pde
from diffsim.inference import (
    FisherModes,
    FisherOperator,
    Free,
    Gaussian,
    Poisson,
    Prior,
    fisher,
    fisher_operator,
)
from diffsim.simulations import Checkpointed


RNG = np.random.default_rng(5)
SIZE, DATA = 6, 15
DESIGN = RNG.normal(size=(DATA, SIZE)) / 4
X = RNG.normal(size=SIZE)
DENSE = np.eye(DATA) + 0.5 * np.exp(-np.abs(np.subtract.outer(*[np.arange(DATA)] * 2)))


def curved(model):
    return jnp.exp(DESIGN @ model["x"])


MODEL = {"x": jnp.asarray(X), "unused": 3}
OBSERVED = np.asarray(curved(MODEL)) + 0.05 * RNG.normal(size=DATA)
PRIOR = {"x": Free(prior=(0.0, np.linspace(0.1, 2.0, SIZE)))}
SOME = {"x[:2]": Free(prior=(0.0, 0.2)), "x[2:]": Free()}


class Quartic:
    """A prior exp(−x⁴) for each entry."""

    def log_prob(self, x):
        return -(x**4)


class Sphere:
    """A prior of all entries together."""

    def log_prob(self, x):
        return -(jnp.sum(x**2) ** 2)


SIZED = Prior(lambda m: m["x"][:2] * m["x"][2], (0.0, 0.3))
CASES = {
    "correlated": {"noise": Gaussian(covariance=DENSE)},
    "some priors": {"noise": Gaussian(0.3), "free": SOME},
    "priors of functions": {
        "noise": Gaussian(0.3),
        "free": PRIOR,
        "priors": [SIZED],
    },
    "varying": {"noise": lambda m: Gaussian(0.1 + m["x"][0] ** 2)},
    "unknown sigma": {"noise": Gaussian(), "data": OBSERVED},
    "observed": {
        "noise": Gaussian(0.5),
        "kind": "observed",
        "data": OBSERVED,
        "free": PRIOR,
    },
    "observed distribution": {
        "noise": Gaussian(0.3),
        "kind": "observed",
        "data": OBSERVED,
        "free": {"x": Free(prior=Sphere())},
    },
    "gaussian": {"noise": Gaussian(np.linspace(0.1, 0.4, DATA))},
    "masked": {"noise": Gaussian(0.1, mask=np.arange(DATA) % 3 > 0)},
    "poisson": {"noise": Poisson()},
    "prior": {"noise": Gaussian(0.3), "free": PRIOR},
    "distribution": {"noise": Gaussian(0.3), "free": {"x": Free(prior=Quartic())}},
}


def experiment(name, information=fisher):
    return information(curved, MODEL, **({"free": "x"} | CASES[name]))


def as_matrix(operator):
    return np.stack([np.asarray(operator.mv(row)) for row in np.eye(operator.size)])


# Each kind of noise, of prior and of curvature whose products are made otherwise.
@pytest.mark.parametrize("name", first_plain(CASES, 5))
def test_products_are_those_of_the_matrix(name):
    dense, operator = experiment(name), experiment(name, fisher_operator)
    assert operator.names == dense.names and operator.size == SIZE
    vector = RNG.normal(size=SIZE)
    exact = np.asarray(dense.matrix) @ vector
    np.testing.assert_allclose(
        operator.mv(vector), exact, rtol=1e-12, atol=1e-12 * np.abs(exact).max()
    )


def test_linear_gaussian_products_are_the_normal_equations():
    operator = fisher_operator(
        lambda x: DESIGN @ x,
        jnp.zeros(SIZE),
        noise=Gaussian(0.5),
        free={"[:]": Free(prior=(0.0, 0.2))},
    )
    exact = DESIGN.T @ DESIGN / 0.25 + np.eye(SIZE) / 0.04
    np.testing.assert_allclose(as_matrix(operator), exact, rtol=1e-12, atol=1e-12)


def test_products_have_derivatives_and_batches():
    """∂(F v)ᵢ/∂x of exp(x) is 2 v exp(2x)."""

    def product(x, v):
        return fisher_operator(jnp.exp, x, noise=Gaussian(1.0)).mv(v)

    x, vectors = jnp.asarray(X), RNG.normal(size=(3, SIZE))
    found = jax.jit(jax.vmap(jax.jacobian(product), (None, 0)))(x, vectors)
    exact = [np.diag(2 * v * np.exp(2 * X)) for v in vectors]
    np.testing.assert_allclose(found, exact, rtol=1e-12)


@pytest.mark.parametrize(
    "name", first_plain(["some priors", "observed", "gaussian", "prior"], 2)
)
def test_all_modes_are_those_of_the_matrix(name):
    dense, operator = experiment(name), experiment(name, fisher_operator)
    matrix = np.asarray(dense.matrix)
    if operator.prior_sd is not None:
        sd = np.linspace(0.1, 2.0, SIZE)
        matrix = matrix * np.outer(sd, sd) - np.eye(SIZE)
    modes = operator.modes(SIZE)
    exact, vectors = np.linalg.eigh(matrix)
    largest = np.abs(exact).max()
    np.testing.assert_allclose(modes.eigenvalues, exact[::-1], atol=1e-12 * largest)
    overlap = np.abs(np.sum(np.asarray(modes.vectors) * vectors.T[::-1], axis=1))
    np.testing.assert_allclose(overlap, 1, atol=1e-10)
    assert np.max(modes.residuals) < 1e-8 * largest and modes.products >= SIZE


@pytest.mark.parametrize("name", ["prior", "observed"])
def test_error_bars_of_all_modes_are_those_of_the_inverse(name):
    modes = experiment(name, fisher_operator).modes(SIZE)
    np.testing.assert_allclose(modes.stderr, experiment(name).stderr, rtol=1e-10)


def test_error_bars_of_some_modes_bound_those_of_all():
    operator, exact = experiment("prior", fisher_operator), experiment("prior").stderr
    bars = [np.asarray(operator.modes(k).stderr) for k in (1, 3, SIZE)]
    for more, fewer in zip(bars[1:], bars, strict=False):
        assert np.all(more <= fewer * (1 + 1e-12))
    assert np.all(bars[0] >= np.asarray(exact) * (1 - 1e-12))
    assert np.all(bars[0] <= np.asarray(operator.prior_sd))


def test_error_bars_are_exact_where_data_know_a_trillion_times_more():
    free = {"[:]": Free(prior=(0.0, 1e6))}
    found = fisher_operator(lambda x: x, jnp.zeros(4), noise=Gaussian(1.0), free=free)
    np.testing.assert_allclose(found.modes(4).stderr, 1.0, rtol=1e-9)


def test_error_bars_of_modes_without_priors_are_those_of_their_coefficients():
    modes = experiment("gaussian", fisher_operator).modes(3)
    np.testing.assert_allclose(modes.mode_stderr, modes.eigenvalues**-0.5, rtol=1e-14)
    covariance = np.asarray(experiment("gaussian").covariance)
    spread = np.einsum("ki,ij,kj->k", modes.vectors, covariance, modes.vectors)
    np.testing.assert_allclose(modes.mode_stderr, np.sqrt(spread), rtol=1e-6)
    with pytest.raises(ValueError, match=r"^stderr needs a prior on every parameter"):
        _ = modes.stderr


def test_directions_that_no_datum_determines_have_eigenvalue_zero():
    """Two data of nine numbers; seven modes of eigenvalue 0."""
    design = RNG.normal(size=(2, 9))
    operator = fisher_operator(lambda x: design @ x, jnp.zeros(9), noise=Gaussian(1.0))
    modes = operator.modes(9)
    exact = np.linalg.eigvalsh(design.T @ design)[::-1]
    np.testing.assert_allclose(modes.eigenvalues, exact, atol=1e-13 * exact[0])
    assert np.all(np.isfinite(modes.mode_stderr[:2]))


def test_a_mode_is_a_model_in_physical_units():
    modes = experiment("prior", fisher_operator).modes(2)
    sd = np.linspace(0.1, 2.0, SIZE)
    mode = modes.model(1)
    assert mode["unused"] == 3
    np.testing.assert_allclose(mode["x"], sd * modes.vectors[1], rtol=1e-14)
    np.testing.assert_allclose(modes.as_model(modes.stderr)["x"], modes.stderr)


@pytest.mark.parametrize("k", [1, 40])
def test_no_copy_of_a_multiple_eigenvalue_is_missed(k):
    """More copies than vectors begin with, above others."""
    exact = np.concatenate([np.ones(30), np.full(10, 0.5), np.linspace(0, 0.3, 160)])
    operator = fisher_operator(
        lambda x: jnp.sqrt(exact) * x, jnp.zeros(200), noise=Gaussian(1.0)
    )
    modes = operator.modes(k, tol=1e-6, max_products=2000)
    np.testing.assert_allclose(modes.eigenvalues, exact[:k], rtol=1e-9)


# A field that diffused ------------------------------------------------------------


CELLS, D, STEP, STEPS, SIGMA = 32, 0.05, 2e-3, 4, 0.1


def snapshot(initial):
    run = pde.Evolution(pde.Diffusion(D), initial, pde.Grid((CELLS, CELLS)))
    method = ds.Method(integrators.CrankNicolson(), step=STEP)
    return ds.simulate(run, STEPS * STEP, method).states


def damping():
    """Growth of each Fourier mode of second differences by steps of Crank–Nicolson."""
    angle = 2 * np.pi * np.fft.fftfreq(CELLS)
    second = (2 - 2 * np.cos(angle)) * CELLS**2
    z = D * STEP * (second[:, None] + second[None, :]) / 2
    return (((1 - z) / (1 + z)) ** STEPS).ravel()


@pytest.fixture(scope="module")
def field():
    start, noise = jnp.zeros((1, CELLS, CELLS)), Gaussian(SIGMA)
    return fisher_operator(snapshot, start, noise=noise)


@pytest.mark.gpu
@pytest.mark.slow
def test_leading_modes_of_a_field_that_diffuses_are_its_longest_waves(field):
    """Multiple eigenvalues, four and eight times, of which none is missed."""
    modes = field.modes(20)
    exact = np.sort(damping() ** 2)[::-1][:20] / SIGMA**2
    np.testing.assert_allclose(modes.eigenvalues, exact, rtol=1e-6)
    waves = np.abs(np.fft.fft2(modes.vectors.reshape(-1, CELLS, CELLS))) / CELLS
    squares = waves.reshape(20, -1) ** 2
    told = np.sum(squares * damping() ** 2, axis=1) / SIGMA**2
    np.testing.assert_allclose(told, exact, rtol=1e-6)
    np.testing.assert_allclose(modes.vectors @ modes.vectors.T, np.eye(20), atol=1e-12)


@pytest.mark.slow
def test_leading_modes_of_a_field_are_those_of_the_dense_matrix(field):
    start, noise = jnp.zeros((1, CELLS, CELLS)), Gaussian(SIGMA)
    matrix = np.asarray(fisher(snapshot, start, noise=noise).matrix)
    exact, vectors = np.linalg.eigh(matrix)
    modes = field.modes(21)
    np.testing.assert_allclose(modes.eigenvalues, exact[::-1][:21], rtol=1e-6)
    # 21 end a cluster of equal ones: the space that they span is unique.
    inside = np.linalg.norm(modes.vectors @ vectors[:, -21:], axis=1)
    np.testing.assert_allclose(inside, 1, atol=1e-6)


@pytest.mark.slow
def test_error_bars_of_a_field_are_those_of_its_waves():
    """With a prior of white noise the posterior variance is a mean over waves."""
    free, sd = {"[:]": Free(prior=(0.0, 0.3))}, 0.3
    start, noise = jnp.zeros((1, CELLS, CELLS)), Gaussian(SIGMA)
    operator = fisher_operator(snapshot, start, noise=noise, free=free)
    modes = operator.modes(21)
    told = np.sort(sd**2 * damping() ** 2 / SIGMA**2)[::-1][:21]
    np.testing.assert_allclose(modes.eigenvalues, told, rtol=1e-6)
    variance = sd**2 * (1 - np.sum(told / (1 + told)) / CELLS**2)
    np.testing.assert_allclose(modes.stderr, np.sqrt(variance), rtol=1e-9)


# What it costs --------------------------------------------------------------------


LARGE, MANY = 100, 49


def evolved(initial):
    grid = pde.Grid((LARGE, LARGE))
    run = pde.Evolution(pde.FisherKPP(1e-3, 1.0), initial, grid)
    method = ds.Method(diffrax.Heun(), step=0.01, adjoint=Checkpointed())
    return ds.simulate(run, 0.01 * MANY, method).states


def large(kind="expected"):
    start = jnp.full((1, LARGE, LARGE), 0.3)
    data = {"data": 0 * start, "kind": kind} if kind == "observed" else {}
    return fisher_operator(evolved, start, noise=Gaussian(0.1), **data)


def sizes(jaxpr):
    """Of every array in it, whatever it is nested in."""
    for equation in jaxpr.eqns:
        yield from (int(np.prod(v.aval.shape)) for v in equation.outvars)
        for value in jax.tree.leaves(
            equation.params, is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from sizes(inner)


@pytest.mark.parametrize("kind", first_plain(["expected", "observed"]))
def test_products_build_no_matrix_of_ten_thousand_parameters(kind):
    operator = large(kind)
    size = operator.size
    program = jax.make_jaxpr(lambda v: operator.mv(v))(jnp.ones(size))
    # States of a segment, √49 of them with the stages of each step.
    assert max(sizes(program.jaxpr)) <= 4 * np.sqrt(MANY) * size


@pytest.mark.slow
def test_products_take_the_memory_of_a_gradient_and_six_runs_at_most():
    operator, start = large(), jnp.full((1, LARGE, LARGE), 0.3)

    def compiled(function, at):
        return jax.jit(function).lower(at).compile()

    def memory(program):
        return program.memory_analysis().temp_size_in_bytes

    run = compiled(evolved, start)
    gradient = compiled(jax.grad(lambda u: jnp.sum(evolved(u) ** 2)), start)
    product = compiled(lambda v: operator.mv(v), jnp.ones(operator.size))
    assert memory(product) < 1.5 * memory(gradient)
    assert memory(product) < 8 * operator.size**2 / 100
    assert product.cost_analysis()["flops"] < 6 * run.cost_analysis()["flops"]


def test_products_take_three_times_the_operations_of_a_prediction():
    """The run, its derivative forward and the one back; no run is repeated."""
    matrix = RNG.normal(size=(300, 300)) / 20

    def predict(u):
        for _ in range(8):
            u = jnp.tanh(matrix @ u)
        return u

    operator = fisher_operator(predict, jnp.ones(300), noise=Gaussian(1.0))
    flops = [
        jax.jit(f).lower(jnp.ones(300)).compile().cost_analysis()["flops"]
        for f in (predict, lambda v: operator.mv(v))
    ]
    assert flops[1] < 3.2 * flops[0]


def test_another_vector_compiles_nothing(compilations):
    operator = fisher_operator(
        lambda x: DESIGN @ jnp.sin(x), jnp.ones(SIZE), noise=Gaussian(1.0)
    )
    operator.mv(np.ones(SIZE))
    before = compilations()
    operator.mv(np.arange(SIZE) + 0.5)
    assert compilations() == before


# What is refused ------------------------------------------------------------------


@jax.custom_vjp
def reversed_only(x):
    return jnp.sin(x)


reversed_only.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x),))


def by_loop(x):
    def step(state):
        return state[0] + 1, state[1] * x

    return jax.lax.while_loop(lambda state: state[0] < 3, step, (0, jnp.ones(SIZE)))[1]


def simple(**options):
    predict = options.pop("predict", jnp.sin)
    return fisher_operator(predict, jnp.ones(SIZE), noise=Gaussian(1.0), **options)


REFUSED = {
    "length": (lambda: simple().mv(np.ones(4)), r"^vector must have shape \(6,\)"),
    "no count": (lambda: simple().modes(0), "^k must be a whole number from 1"),
    "too many": (lambda: simple().modes(7), "^k must be at most the 6 parameters"),
    "tolerance": (lambda: simple().modes(1, tol=0.0), "^tol must be positive"),
    "products": (
        lambda: simple().modes(1, max_products=0),
        "^max_products must be a whole number from 1",
    ),
    "no data": (lambda: simple(kind="observed"), "^data must be given"),
    "sampled": (
        lambda: simple(kind="sampled"),
        "^kind must be one of .*, got 'sampled'",
    ),
    "joint": (
        lambda: simple(free={"[:]": Free(prior=Sphere())}),
        "^fisher_operator takes priors of single entries",
    ),
    "reverse": (
        lambda: simple(predict=reversed_only).mv(np.ones(SIZE)),
        r"^predict \(reversed_only\) has reverse mode only.*Checkpointed\(\)",
    ),
    "forward": (
        lambda: simple(predict=by_loop).modes(2),
        r"^predict \(by_loop\) has forward mode only.*take fisher",
    ),
    "traced": (
        lambda: jax.jit(
            lambda x: (
                fisher_operator(jnp.sin, x, noise=Gaussian(1.0)).modes(1).eigenvalues
            )
        )(jnp.ones(SIZE)),
        "^modes is a loop outside of jit",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_arguments_are_named(name):
    call, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        call()


def test_modes_that_do_not_converge_say_what_to_change():
    scale = jnp.linspace(1.0, 2.0, 200)
    operator = fisher_operator(lambda x: scale * x, jnp.zeros(200), noise=Gaussian(1.0))
    words = r"^max_products: \d+ of 10 modes converged within 30 products.*a larger tol"
    with pytest.raises(ValueError, match=words):
        operator.modes(10, max_products=39)


def test_failed_prediction_has_no_modes_and_says_so():
    modes = simple(predict=lambda x: jnp.log(-x)).modes(2)
    assert modes.status == ds.RESULTS.prediction_not_finite
    assert np.all(np.isnan(modes.eigenvalues)) and np.all(np.isnan(modes.vectors))
    assert "not finite" in repr(modes)


def test_operator_and_modes_show_what_they_are(capsys):
    operator = experiment("prior", fisher_operator)
    assert isinstance(operator, FisherOperator)
    assert repr(operator).startswith("FisherOperator(6 parameters, expected ")
    steps = []
    modes = operator.modes(3, progress=steps.append)
    assert isinstance(modes, FisherModes)
    assert repr(modes).startswith("FisherModes(3 of 6 modes, expected information)\n")
    assert steps[-1]["converged"] == 3 and steps[-1]["products"] == modes.products
    operator.modes(3, progress=True)
    assert "converged" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:fisher_operator of arrays below float64")
def test_modes_in_single_precision_end_at_rounding():
    design = (RNG.normal(size=(40, 30)) / np.arange(1, 31)).astype(np.float32)
    operator = fisher_operator(
        lambda x: design @ x,
        jnp.zeros(30, jnp.float32),
        noise=Gaussian(np.float32(0.1)),
    )
    modes = operator.modes(5)
    assert modes.vectors.dtype == modes.eigenvalues.dtype == jnp.float32
    exact = np.linalg.eigvalsh(design.astype(float).T @ design * 100)[::-1][:5]
    np.testing.assert_allclose(modes.eigenvalues, exact, rtol=1e-5)
