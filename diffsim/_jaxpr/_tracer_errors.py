"""One sentence for a user's function that JAX cannot trace or differentiate."""

from typing import Any

import jax


_ERRORS = jax.errors
_DECIDES = (
    "decides by a value that is not known while JAX traces it, as in `if t < 0.5`, "
    "`and` or `max(a, b)`; write jnp.where(condition, a, b), jnp.logical_and or "
    "jnp.maximum"
)
_INDEXES = (
    "uses a value that JAX traces as a Python integer, an index of a list or a "
    "length; use a jax.numpy array and index that, or jnp.take"
)
_MAKES_A_NUMBER = (
    "makes a Python number of a value that JAX traces, by math.sin, float or int; "
    "use jax.numpy, jnp.sin for math.sin, and leave float out"
)
_SETS_AN_ENTRY = (
    "calls NumPy on a value that JAX traces, to write it into an array; use jax.numpy, "
    "o = jnp.zeros(5).at[0].set(value) for o = np.zeros(5) and o[0] = value"
)
_SHAPES = (
    "makes an array whose shape depends on a value that JAX traces, as jnp.arange(n) "
    "and x[:n] do; shapes must not depend on parameters: take a fixed length and a "
    "mask, jnp.where(jnp.arange(10) < n, x, 0)"
)
#: The narrower kind comes first: JAX has one base for both.
_SENTENCES = (
    (_ERRORS.TracerBoolConversionError, _DECIDES),
    (
        _ERRORS.TracerArrayConversionError,
        "calls NumPy or SciPy on a value that JAX traces; use jax.numpy, jnp.sin for "
        "np.sin, which also knows the derivative",
    ),
    (
        _ERRORS.TracerIntegerConversionError,
        _INDEXES,
    ),
    (
        _ERRORS.NonConcreteBooleanIndexError,
        "selects by a condition, as in x[x > 0], whose number of entries is not known "
        "while JAX traces it; write jnp.where(condition, x, 0)",
    ),
    (
        _ERRORS.ConcretizationTypeError,
        _MAKES_A_NUMBER,
    ),
)
#: Errors of no kind of their own are told by their words, for traced arrays and others,
#: and those that are about a shape where their kind would be taken for a number.
_SAID = (
    (
        "do not support in-place item assignment",
        "writes into an array, which JAX does not do in place; make a new one, "
        "u = u.at[0].set(1.0) for u[0] = 1.0, u.at[0].add(1.0) for u[0] += 1.0",
    ),
    # of jnp.zeros, reshape and random numbers; of an integer that is no tracer JAX
    # says nothing of jit
    ("try using `static_argnums`", _SHAPES),
    ("must have static start/stop/step", _SHAPES),
    ("Slice entries must be static integers", _SHAPES),  # JAX 0.10
    ("jnp.arange argument", _SHAPES),
    ("'num' argument of jnp.", _SHAPES),
    ("total number of repeats must be static", _SHAPES),
    ("size argument of jnp.nonzero", _SHAPES),
    ("jnp.unique()", _SHAPES),
)
_SAID_OF_NUMBERS = (
    ("converted to Python scalars", _MAKES_A_NUMBER),
    ("converted to a scalar index", _INDEXES),
    ("truth value of an array", _DECIDES),
)

#: Reasons why a function lacks a mode of differentiation; the remedy depends on who
#: asked for it.
REVERSE_ONLY = (
    "has reverse mode only, because of a jax.custom_vjp in it, its own or a library's"
)
FORWARD_ONLY = "has forward mode only, because of a jax.lax.while_loop in it"
UNROLL = "write the loop by jax.lax.scan, or by jax.lax.fori_loop with static bounds"
_CALLS_OUT = (
    "calls out of JAX by pure_callback, which has no derivative; give it one by "
    "jax.custom_jvp, or write it in jax.numpy"
)


def explained_tracer_error(
    error: Exception, name: str, function: Any
) -> ValueError | None:
    """The sentence for an error where a function was traced; None for another one."""
    remedy = _remedy(error)
    return None if remedy is None else _said_of(name, function, remedy)


def explained_derivative_error(
    error: Exception, name: str, function: Any, *, forward: str, reverse: str
) -> ValueError | None:
    """The sentence where JAX cannot differentiate a function; None for another error.

    `forward`, `reverse`: what to say of a function that lacks this mode.
    """
    remedies = {
        "forward-mode autodiff (jvp) to a custom_vjp": forward,
        "rule for 'custom_lin' not implemented": forward,  # inside of a reverse one
        "callbacks do not support JVP": _CALLS_OUT,
        "Reverse-mode differentiation does not work": reverse,
    }
    for words, remedy in remedies.items():
        if words in str(error):
            return _said_of(name, function, remedy)
    return None


def _said_of(argument: str, function: Any, remedy: str) -> ValueError:
    name = getattr(function, "__name__", type(function).__name__)
    is_named = function is not None and name not in ("<lambda>", argument)
    return ValueError(f"{argument}{f' ({name})' if is_named else ''} {remedy}")


def _remedy(error: Exception) -> str | None:
    if "setting an array element with a sequence" in str(error):
        # NumPy says it of lists as well, and what it was told of tracers is the cause.
        cause = error.__cause__ or error.__context__
        traced = isinstance(cause, Exception) and _remedy(cause) is not None
        return _SETS_AN_ENTRY if traced else None
    said = [text for said, text in _SAID if said in str(error)]
    kinds = [text for kind, text in _SENTENCES if isinstance(error, kind)]
    others = [text for said, text in _SAID_OF_NUMBERS if said in str(error)]
    return next(iter(said + kinds + others), None)
