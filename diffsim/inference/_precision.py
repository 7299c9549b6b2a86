"""One warning where double precision is off."""

import warnings

import jax


def warn_of_single_precision(act: str):
    """Warns if JAX runs in float32: error bars lose digits first."""
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"{act} in float32: error bars and weak directions lose digits first; for "
            'float64 call jax.config.update("jax_enable_x64", True) first of all',
            stacklevel=3,
        )
