"""Declared arguments: a converter for each kind, one sentence where it is not met.

At the top of a function `width = positive("width", width)`, for the field of a class
`width: Array = eqx.field(converter=functools.partial(positive, "width"))`. Traced
values pass: what has to hold of them is a `PositiveParameter` or one of RESULTS.
"""

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ._jaxpr._tracing import is_traced


_Value = TypeVar("_Value")


def compile_time_eval() -> contextlib.AbstractContextManager[None]:
    """Inside, what is known is evaluated at once, also while a function is traced."""
    # Else a tracer. Where there is none JAX's own context would only cost time: inside
    # it every operation on constants of a compiled function is compiled by itself.
    staged = is_traced(jnp.zeros(()))
    return jax.ensure_compile_time_eval() if staged else contextlib.nullcontext()


def _first(value: Any) -> object:
    """The first of the numbers in lists of lists."""
    return _first(value[0]) if isinstance(value, list | tuple) and value else value


def check_unitless(name: str, value: Any):
    """Refuse quantities of Astropy and Pint, whose unit an array would lose."""
    # Of several the first tells.
    first: Any = _first(value)
    if hasattr(first, "unit") and hasattr(first, "to_value"):
        unit, convert = first.unit, "to_value"
    elif hasattr(first, "units") and hasattr(first, "m_as"):
        unit, convert = first.units, "m_as"
    else:
        return
    raise ValueError(
        f"{name} must be plain numbers in units of your choice, got a quantity in "
        f"{unit}; take {name}.{convert}(unit), the same units everywhere"
    )


def as_floating(name: str, value: Any) -> Array:
    """`value` as a floating array: integers become JAX's default float, floats stay."""
    check_unitless(name, value)
    value = as_jax_takes(name, value)
    try:
        array = as_array(_of_numpy(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be real numbers, an array or nested lists of one shape, got "
            f"{value!r:.60}"
        ) from error
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array
    if jnp.issubdtype(array.dtype, jnp.integer):
        return array.astype(jnp.result_type(float))
    hint = ""
    if jnp.iscomplexobj(array):
        hint = "; give real and imaginary parts, jnp.stack([z.real, z.imag])"
    raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}{hint}")


def _of_numpy(value: Any) -> object:
    """Lists and integers as floating arrays of NumPy; nothing is compiled for those."""
    if isinstance(value, list | tuple):
        # Of others JAX decides the type: NumPy makes doubles of a float32 beside 2.0.
        plain = all(type(x) in (int, float) for x in jax.tree.leaves(value))
        value = np.asarray(value) if plain else value
    whole = isinstance(value, np.ndarray) and value.dtype.kind in "iu"
    return value.astype(jnp.result_type(float)) if whole else value


def check_precision(name: str, value: Array):
    """Raise `ValueError` for half precision, in which steps are lost to rounding."""
    if value.dtype not in (jnp.float32, jnp.float64):
        raise ValueError(
            f"{name} must be float32 or float64, got {value.dtype}; "
            f"{name}.astype(jnp.float32) makes it so"
        )


def checked_return(name: str, found: Any, dtype: Any) -> Array:
    """Convert what the function `name` returned to the type that it is wanted in."""
    try:
        array = jnp.asarray(found)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must return real numbers, an array for instance, got {found!r:.60}"
        ) from error
    if jnp.iscomplexobj(array):
        raise ValueError(f"{name} must return real numbers, got dtype {array.dtype}")
    return array.astype(dtype)


def promote_to_common_dtype(**values: Any) -> list[Array]:
    """All `values` as floating arrays of one dtype."""
    arrays = [as_floating(name, value) for name, value in values.items()]
    dtype = jnp.result_type(*arrays)
    return [array.astype(dtype) for array in arrays]


def scalar(name: str, value: _Value) -> _Value:
    """One real number."""
    if not isinstance(value, float | int):
        shape = as_floating(name, value).shape
        if shape:
            raise ValueError(f"{name} must be one number, got shape {shape}")
    return value


def positive(name: str, value: _Value, hint: str = "") -> _Value:
    """Numbers above zero."""
    if not is_traced(value) and not (least := _least(name, value)) > 0:
        raise ValueError(f"{name} must be positive, got {least}{_after(hint)}")
    return value


def not_negative(name: str, value: _Value, hint: str = "") -> _Value:
    """Numbers from zero."""
    if not is_traced(value) and not (least := _least(name, value)) >= 0:
        raise ValueError(f"{name} must not be negative, got {least}{_after(hint)}")
    return value


def _least(name: str, value: Any) -> float:
    if not isinstance(value, float | int):
        as_floating(name, value)
    return np.min(np.asarray(value, float), initial=np.inf)


def finite(name: str, value: _Value, hint: str = "") -> _Value:
    """Numbers that are neither NaN nor infinite."""
    if is_traced(value):
        return value
    numbers = np.ravel(np.asarray(value, float))
    if not np.all(np.isfinite(numbers)):
        worst = numbers[np.argmin(np.isfinite(numbers))]
        raise ValueError(f"{name} must be finite, got {worst}{_after(hint)}")
    return value


def count(name: str, value: Any, least: int = 1, hint: str = "") -> int:
    """A whole number from `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"{name} must be a whole number from {least}, got {value!r:.60}"
            f"{_after(hint)}"
        )
    return int(value)


def one_of(name: str, value: _Value, choices: Sequence[Any], hint: str = "") -> _Value:
    """One of a few values."""
    if not any(value is choice or value == choice for choice in choices):
        listed = ", ".join(map(repr, choices))
        raise ValueError(
            f"{name} must be one of {listed}, got {value!r:.60}{_after(hint)}"
        )
    return value


def instance(name: str, value: _Value, kind: Any, example: str) -> _Value:
    """An object of this kind, as `example` makes one."""
    if isinstance(value, kind):
        return value
    got = f"{value!r:.60}"
    if "\n" in got:  # a table
        got = f"a {type(value).__name__}"
    if isinstance(value, type):
        got = f"the class {value.__name__}; {value.__name__}(...) makes one"
    raise ValueError(f"{name} must be an object such as {example}, got {got}")


def array_of(
    name: str, value: Any, shape: tuple[int | None, ...], hint: str = ""
) -> Array:
    """A floating array of `shape`, in which None stands for any length."""
    array = as_floating(name, value)
    agrees = len(array.shape) == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not agrees:
        wanted = tuple("any" if n is None else n for n in shape)
        raise ValueError(
            f"{name} must have shape {wanted}, got {array.shape}{_after(hint)}"
        )
    return array


def function_of(name: str, value: _Value, arguments: tuple[str, ...]) -> _Value:
    """A function that takes so many arguments."""
    listed = ", ".join(arguments)
    if not callable(value):
        raise ValueError(f"{name} must be a function of ({listed}), got {value!r:.60}")
    if not takes(value, arguments):
        raise ValueError(
            f"{name} must take ({listed}), got a function of "
            f"{inspect.signature(value)}; write "
            f"lambda {listed}: ..., whether or not it uses all of them"
        )
    return value


def _after(hint: str) -> str:
    return f"; {hint}" if hint else ""


def takes(function: Callable, arguments: tuple[str, ...]) -> bool:
    """Whether `function` takes so many arguments, or does not say what it takes."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def check_broadcast(**shapes: tuple[int, ...]):
    """Raise `ValueError` for shapes that do not broadcast."""
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes must broadcast, got {got}") from error


class PositiveParameter(NamedTuple):
    """A parameter that must be positive.

    ```python
    class Cooling(pde.AbstractFiniteVolumeEquation):  # ∂u/∂t = −k u⁴
        k: float

        def channels(self, ndim):
            return 1

        def rate(self, t, u, domain):
            return -self.k * u**4

        def default_method(self, domain):
            return ds.Method(diffrax.Tsit5())

        def positive_parameters(self):
            return (pde.PositiveParameter("k", self.k, hint="the body would heat up"),)

    plate = pde.Evolution(Cooling(0.1), jnp.ones(16), pde.Grid(16))
    ds.simulate(plate, 10.0).states  # 4^(−1/3)
    ```

    If it is not, what is known raises and what is traced is
    `RESULTS.invalid_parameter`.

    **Arguments**

    - `name`: for the sentence.
    - `value`: a number or an array; of a function or None nothing is asked.
    - `zero`: whether zero will do.
    - `hint`: why, or what to try, for the sentence.
    """

    name: str
    value: Any
    zero: bool = False
    hint: str = ""

    def check(self) -> None:
        """Raise `ValueError` for known values that are not of this sign."""
        if self._asked:
            sign = not_negative if self.zero else positive
            sign(self.name, self.value, self.hint)

    def holds(self) -> Bool[Array, ""]:
        """Whether it is of this sign, wherever it came from."""
        if not self._asked:
            return jnp.asarray(True)
        smallest = jnp.min(jnp.asarray(self.value), initial=jnp.inf)
        return smallest >= 0 if self.zero else smallest > 0

    @property
    def _asked(self) -> bool:
        return self.value is not None and not callable(self.value)


def check_known(name: str, tree: Any):
    """Raise `ValueError` for numbers that are not known while Python runs."""
    if any(map(is_traced, jax.tree.leaves(tree))):
        raise ValueError(
            f"{name} is traced, and its numbers are not known; return it from jit, "
            "vmap or grad, and make tables and pictures of it there"
        )


def all_hold(signs: tuple[PositiveParameter, ...]) -> Bool[Array, ""]:
    """Whether every one does."""
    return jnp.all(jnp.asarray([sign.holds() for sign in signs] or [True]))


_Kind = TypeVar("_Kind")


def or_default(name: str, given: Any, kind: type[_Kind], *, default: _Kind) -> _Kind:
    """`given`, an object of this kind, or the default where it is None."""
    if given is None:
        return default
    instance(name, given, kind, f"pde.{type(default).__name__}()")
    return given


_NATIVE = tuple(np.dtype(kind) for kind in (np.float32, np.float64))


def as_jax_takes(name: str, value: Any) -> object:
    """`value`, or what it is in a type that JAX knows; other things come back as given.

    Foreign byte orders, as FITS has them, keep their type; extended precision and
    Python integers beyond 64 bits become doubles. Masks and dates are refused.
    """
    if isinstance(value, jax.Array | float | int) or (
        type(value) is np.ndarray and value.dtype in _NATIVE
    ):
        big = isinstance(value, int) and abs(value) >= 2**63
        return float(_native(name, np.asarray(value, object))) if big else value
    if isinstance(value, list | tuple):
        return _of_list(name, value)
    _check_masked(name, value)
    dtype = getattr(value, "dtype", None)
    if not isinstance(value, np.ndarray | np.generic) or not isinstance(
        dtype, np.dtype
    ):
        return value
    return _native(name, np.asarray(value))


def as_array(value: Any) -> Array:
    """`jnp.asarray(value)`; of an array of NumPy's without a program to compile."""
    if type(value) is not np.ndarray:
        return jnp.asarray(value)
    # Told its type JAX copies it. Else it compiles a program for every shape.
    return jnp.asarray(value, jax.dtypes.canonicalize_dtype(value.dtype))


def as_vector(leaves: Sequence[Any]) -> Array:
    """All numbers of `leaves` as one vector, of known ones by NumPy."""
    if any(map(is_traced, leaves)):
        return jnp.concatenate([jnp.reshape(jnp.asarray(leaf), -1) for leaf in leaves])
    dtype = jnp.result_type(*leaves)
    return as_array(np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(dtype))


def _of_list(name: str, value: Any) -> object:
    if any(isinstance(x, jax.Array) for x in jax.tree.leaves(value)):
        return value
    for entry in jax.tree.leaves(value):
        _check_masked(name, entry)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # of several shapes
        return value
    # What JAX knows it makes an array of itself, of its own default type.
    strange = array.dtype.kind in "mMO" or array.dtype == np.longdouble
    strange = strange or any(map(_is_foreign, jax.tree.leaves(value)))
    return _native(name, array) if strange else value


def _is_foreign(entry: Any) -> bool:
    """Whether JAX cannot take this entry of a list."""
    if isinstance(entry, np.ndarray):
        return not entry.dtype.isnative
    return isinstance(entry, int) and abs(entry) >= 2**63


def _native(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "mM":
        raise ValueError(
            f"{name} must be plain numbers, got dates of dtype {array.dtype}; count "
            f"from an epoch in a unit of yours, ({name} - epoch) / "
            "np.timedelta64(1, 'D')"
        )
    if array.dtype == np.longdouble:
        return array.astype(np.float64)
    whole = array.dtype.kind == "O" and all(
        isinstance(x, int | float | np.integer | np.floating)
        and not isinstance(x, bool)
        for x in array.flat
    )
    if whole:
        try:
            return array.astype(np.float64)
        except OverflowError:
            most = f"{np.finfo(float).max:g}, the largest double"
            raise ValueError(f"{name} must be numbers up to {most}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_masked(name: str, value: Any):
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} must be plain numbers, got {np.ma.count_masked(value)} of them "
            f"masked, which would count here; take {name}.compressed()"
        )
