"""`cite`: the references of the classes that were actually used."""

from typing import Any

import equinox as eqx
import jax


def cite(*objects: Any) -> str:
    """DOIs and arXiv numbers of every diffsim class found in `objects`, one a line.

    **Arguments:** any pytrees: simulations, methods, fits.

    **Returns:** lines `Class: https://doi.org/...`, sorted, without repetition; the
    empty string where nothing carries `references`.
    """
    references: set[tuple[str, str]] = set()
    for item in objects:
        _gather(item, references)
    return "\n".join(f"{name}: {_link(key)}" for name, key in sorted(references))


def _gather(item: Any, references: set[tuple[str, str]]):
    keys = getattr(type(item), "references", ())
    references.update((type(item).__name__, key) for key in keys)
    if isinstance(item, eqx.Module):
        children = list(vars(item).values())
    else:
        children = [
            x for x in jax.tree.leaves(item, is_leaf=_is_module) if x is not item
        ]
    for child in children:
        _gather(child, references)


def _is_module(x: Any) -> bool:
    return isinstance(x, eqx.Module)


def _link(key: str) -> str:
    prefix = (
        "https://arxiv.org/abs/" if key.startswith("arXiv:") else "https://doi.org/"
    )
    return prefix + key.removeprefix("arXiv:")
