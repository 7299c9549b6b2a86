"""Checks that terms fit the state and the solver."""

import typing
from typing import Any, Protocol, runtime_checkable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._jaxpr._tracing import explain_tracer_errors
from ..._types import PyTree
from .._simulation import AbstractSimulation
from ._imex import AbstractIMEXTerm
from ._operator_splitting import AbstractSplitFlows
from ._separable import Separable


@runtime_checkable
class ChecksDynamics(Protocol):
    """A solver of some dynamics only, which says which."""

    def check_dynamics(
        self, terms: Any, t: Array, y: PyTree[Array], simulation: Any
    ) -> None:
        """Raise `ValueError` for others; evaluated for its shapes."""
        ...


def check_dynamics(
    simulation: AbstractSimulation,
    solver: diffrax.AbstractSolver,
    t0: Array,
    y0: PyTree[Array],
):
    """Raise `ValueError` for terms `solver` cannot step and rates unlike the state."""

    def check(simulation, t0, y0):
        terms = simulation.terms()
        _check_terms(terms)
        _check_solver(solver, terms)
        if isinstance(solver, ChecksDynamics):
            solver.check_dynamics(terms, t0, y0, simulation)
        if isinstance(terms, Separable):
            _check_pair(y0)
        if is_ode_term(terms):
            # Not by `ODETerm.vf`, which broadcasts to the state.
            plain = isinstance(terms, diffrax.ODETerm)
            field = terms.vector_field if plain else terms.vf
            with explain_tracer_errors(f"terms of {type(simulation).__name__}"):
                rate = field(t0, y0, simulation)
            _check_rate(y0, rate)

    # Evaluated for its shapes: nothing of it is left in the run.
    eqx.filter_eval_shape(check, simulation, t0, y0)


def check_precision(y0: PyTree[Array]):
    """Refuse states of no numbers, and of several precisions."""
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(y0)}
    if not kinds:
        raise ValueError(
            f"initial_state() must hold at least one array, got {y0!r:.60}"
        )
    coarse = sorted(kinds & {"float16", "bfloat16"})
    if coarse:
        raise ValueError(
            f"initial_state() must be in float32 or float64, got {coarse[0]}, whose "
            "rounding a run would add up; cast it, x.astype(jnp.float32) say"
        )
    if len(kinds) > 1:
        got = " and ".join(sorted(kinds))
        raise ValueError(
            f"initial_state() must be of one precision, got {got}; a step "
            "would cast what is coarser: cast it there, x.astype(jnp.float64) say"
        )


def is_ode_term(terms: Any) -> bool:
    """Whether a step multiplies the vector field by its length, and no other control.

    A `ControlTerm` multiplies by something else, a `MultiTerm` by several.
    """
    return isinstance(terms, diffrax.ODETerm | AbstractSplitFlows | AbstractIMEXTerm)


def _check_terms(terms: Any):
    def is_term(x):
        return isinstance(x, diffrax.AbstractTerm)

    found = jax.tree.leaves(terms, is_leaf=is_term)
    if not found or not all(map(is_term, found)):
        raise ValueError(
            f"terms() must return a Diffrax term, got a {type(terms).__name__}; "
            "diffrax.ODETerm(vector_field) makes one of a function"
        )

    def is_noise(x):
        return isinstance(x, diffrax.AbstractBrownianPath)

    noises = [x for x in jax.tree.leaves(terms, is_leaf=is_noise) if is_noise(x)]
    if noises:
        raise ValueError(
            f"terms() must be of an ordinary differential equation, got a "
            f"{type(noises[0]).__name__}; stochastic ones are for diffrax.diffeqsolve"
        )


def _check_solver(solver: diffrax.AbstractSolver, terms: Any):
    structure = solver.term_structure
    if isinstance(structure, tuple):
        fits, wanted = isinstance(terms, tuple), f"a tuple of {len(structure)} terms"
    else:
        kind = typing.get_origin(structure) or structure
        fits, wanted = isinstance(terms, kind), f"{kind.__name__} dynamics"
    if fits:
        return
    advice = (
        "Take an explicit Runge–Kutta solver instead, diffrax.Dopri8() at fixed steps "
        "say"
    )
    if structure in (Separable, AbstractSplitFlows):
        wanted = "Separable dynamics, whose accelerations do not depend on velocity"
    if structure is AbstractSplitFlows:
        wanted += ", or SplitFlows"
    if wanted.startswith("MultiTerm"):
        wanted += ", an explicit and an implicit term"
        advice = "Take integrators.Kvaerno5() where all of one term is stiff"
    raise ValueError(
        f"{type(solver).__name__} needs {wanted}; got {type(terms).__name__}. {advice}"
    )


def _check_pair(y0: PyTree[Array]):
    if type(y0) is not tuple or len(y0) != 2:
        got = "an array" if eqx.is_array(y0) else f"a {type(y0).__name__}"
        raise ValueError(
            f"Separable dynamics need an initial_state() that is a tuple (x, v), got "
            f"{got}; for other states take diffrax.ODETerm"
        )


def _check_rate(y0: PyTree[Array], rate: PyTree[Any]):
    """Steps would broadcast or promote what does not agree, and so change the state."""
    ours, theirs = jax.tree.structure(y0), jax.tree.structure(rate)
    if ours != theirs:
        raise ValueError(
            f"the vector field must return the structure of the state, {ours}, got "
            f"{theirs}"
        )
    states, _ = jax.tree_util.tree_flatten_with_path(y0)
    for (path, y), r in zip(states, jax.tree.leaves(rate), strict=True):
        if jnp.shape(r) != y.shape or jnp.result_type(y, r) != y.dtype:
            where = jax.tree_util.keystr(path)
            raise ValueError(
                f"the vector field must return what state{where} is, {y.dtype} of "
                f"shape {y.shape}, got {jnp.result_type(r)} of shape {jnp.shape(r)}; "
                "nothing is broadcast or cast for you"
            )
