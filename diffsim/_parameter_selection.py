"""Names of the numbers in a pytree; select some, flatten to a vector, put back."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._jit._placeholders import flatten_as_written
from ._paths import (
    closest_matches,
    joined,
    leads_to,
    listed,
    matches,
    several,
    split_index,
    step_to,
    steps_of,
)
from ._types import PyTree
from ._validation import as_vector


_Tree = TypeVar("_Tree")


@dataclasses.dataclass(frozen=True)
class LeafSelection:
    """The entries of one leaf that one path chose."""

    path: str = dataclasses.field(compare=False)
    """the path as it was written; two that choose the same are equal"""
    leaf: int
    """position among `jax.tree.leaves(tree)`"""
    shape: tuple[int, ...]
    """shape of the chosen entries"""
    entries: tuple[int, ...] | None
    """flat positions of the chosen entries; None for the whole leaf"""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


@dataclasses.dataclass(frozen=True)
class Selection:
    """Numbers chosen from a pytree, in the order of `names`; static and hashable."""

    parts: tuple[LeafSelection, ...]
    names: tuple[str, ...]


def select(
    tree: PyTree,
    paths: Any,
    *,
    argument: str = "free",
    passing: tuple[str, ...] = (),
    integers: bool = False,
) -> Selection:
    """The floating-point numbers of `tree` that `paths` name.

    **Arguments:**

    - `tree`: any pytree. Its float leaves are arrays and Python floats.
    - `paths`: a path, a sequence of paths, or a function from the tree to some of its
        nodes (as in `equinox.tree_at`). A path is the attribute access one would write:
        `bodies.masses`, `layers[0].weight`, a dict entry like an attribute. It ends at
        a leaf, at a node (everything floating below it; `bodies.*` says the same) or at
        entries of a leaf: `bodies.masses[5]`, `bodies.positions[1:, 2]`, an array on
        its own `[0]`. If the module that owns an array has `names`, a tuple that labels
        the first axis, so may the path: `bodies.positions[Jupiter]`; a label may have
        commas and brackets. `*` stands for any one step.
    - `argument`: what the error messages call `paths`.
    - `passing`: leaves that a node does not stand for; only their own path names them.
    - `integers`: whether a path of a leaf of integers, or of its entries, is one, too.

    **Returns:** a `Selection`; each number is named by its own path, `leaf[i, j]`, with
    the label in place of `i` where there is one: `bodies.positions[Jupiter, 0]`.

    **Raises:** a `ValueError` for a path that leads nowhere (with the near ones), that
    ends at something that is not floating, that repeats a number, that names two
    leaves, or if nothing is chosen.
    """
    leaves = _leaves(tree)
    if callable(paths):
        parts = _parts_of_nodes(tree, leaves, paths, argument)
    else:
        parts = tuple(
            part
            for path in several(paths, argument)
            for part in _parts(leaves, path, argument, passing, integers)
        )
    if not any(part.size for part in parts):
        raise ValueError(
            f"{argument} selects no numbers; the floating-point leaves are "
            f"{listed(leaf.name for leaf in leaves if leaf.floating)}"
        )
    _object_to_repeats(parts, leaves, argument)
    names = tuple(name for part in parts for name in _names(part, leaves[part.leaf]))
    if len(set(names)) < len(names):
        _object_to_shared_name(tree, parts, leaves, argument)
    return Selection(parts, names)


def selected_values(tree: PyTree, selection: Selection) -> Array:
    """The selected numbers of `tree` as one vector."""
    leaves, _ = flatten_as_written(tree)
    pieces = []
    for part in selection.parts:
        leaf = leaves[part.leaf]
        if part.entries is not None:
            flat = jnp.reshape(jnp.asarray(leaf), -1)
            leaf = flat[np.asarray(part.entries, int)]
        pieces.append(leaf)
    return as_vector(pieces)


def with_selected_values(tree: PyTree, selection: Selection, vector: Array) -> PyTree:
    """`tree` with its selected numbers replaced by those of `vector`.

    Leaves keep their dtype. Pure: use it under jit, vmap and grad.
    """
    leaves, unflatten = flatten_as_written(tree)
    begin = 0
    for part in selection.parts:
        old = jnp.asarray(leaves[part.leaf])
        new = vector[begin : begin + part.size].astype(old.dtype)
        if part.entries is not None:
            new = jnp.reshape(old, -1).at[np.asarray(part.entries, int)].set(new)
        leaves[part.leaf] = jnp.reshape(new, old.shape)
        begin += part.size
    return unflatten(leaves)


def leaf_indices(
    known: Sequence[str], names: Any, *, argument: str = "names"
) -> list[int]:
    """Positions of `names` among the names that a selection has given to its numbers.

    A name is that of a number or of what holds several: `bodies` and `bodies.masses`
    stand for all below them, `bodies.positions[Jupiter]` for three.
    """
    found: list[int] = []
    for name in several(names, argument):
        below = re.escape(name) + r"([.\[].*)?"
        entries = re.escape(name.removesuffix("]")) + r"(, \d+)+\]"
        hits = [i for i, n in enumerate(known) if re.fullmatch(f"{below}|{entries}", n)]
        if not hits:
            beside = [n for n in known if n.startswith(name.partition("[")[0] + "[")]
            meant = closest_matches(name, beside or known)
            raise ValueError(f"{argument}={name!r} is no parameter; {meant}")
        found.extend(hits)
    return found


def one_name(known: Sequence[str], name: str) -> int:
    """Position of the one parameter that `name` stands for."""
    found = leaf_indices(known, name, argument="name")
    if len(found) > 1:
        raise ValueError(
            f"name must be one parameter, got {name!r}, which stands for "
            f"{[known[i] for i in found][:6]}"
        )
    return found[0]


def integers(tree: PyTree) -> list[str]:
    """Names of the leaves of `tree` that hold integers."""
    return [leaf.name for leaf in _leaves(tree) if leaf.integer]


@dataclasses.dataclass(frozen=True)
class _Leaf:
    tokens: tuple[str, ...]
    value: Any
    position: int
    labels: tuple[str, ...]

    @property
    def name(self) -> str:
        return joined(self.tokens)

    @property
    def floating(self) -> bool:
        return isinstance(self.value, float) or (
            hasattr(self.value, "dtype")
            and jnp.issubdtype(self.value.dtype, jnp.floating)
        )

    @property
    def integer(self) -> bool:
        kind = getattr(self.value, "dtype", type(self.value))
        return jnp.issubdtype(kind, jnp.integer)


def _leaves(tree: PyTree) -> list[_Leaf]:
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [
        _Leaf(_steps_to(keys, value), value, i, _labels(tree, keys, value))
        for i, (keys, value) in enumerate(found)
    ]


def _steps_to(keys: Sequence[Any], value: Any) -> tuple[str, ...]:
    """Steps to a leaf as its path is read: a dict key may have dots and brackets."""
    if not keys and not np.shape(value):
        return ("value",)
    return steps_of(joined([step_to(key) for key in keys]))


def _labels(tree: PyTree, keys: Sequence[Any], value: Any) -> tuple[str, ...]:
    """The `names` of the module that owns an array, where they label its first axis."""
    owner: Any = tree
    for key in keys[:-1]:
        if hasattr(key, "name"):
            owner = getattr(owner, key.name, None)
        elif isinstance(key, (jax.tree_util.DictKey, jax.tree_util.SequenceKey)):
            owner = owner[key.key if hasattr(key, "key") else key.idx]
        else:
            return ()
    names: Any = getattr(owner, "names", None)
    fits = isinstance(names, tuple) and np.shape(value)[:1] == (len(names),)
    return tuple(map(str, names)) if keys and fits else ()


def _parts(
    leaves: list[_Leaf],
    path: str,
    argument: str,
    passing: tuple[str, ...],
    integers: bool,
) -> list[LeafSelection]:
    tokens = steps_of(path)
    if not tokens or joined(tokens) != path:
        raise _wrong_path(leaves, path, argument)
    while tokens and tokens[-1] == "*":
        tokens = tokens[:-1]
    found = [leaf for leaf in leaves if leads_to(tokens, leaf.tokens)]
    if found:
        chosen = [x for x in found if x.floating and x.name not in passing]
        chosen = chosen or [x for x in found if x.floating and x.name == path]
        chosen = chosen or [x for x in found if integers and x.integer][:1]
        if not chosen or (chosen[0].integer and len(found) > 1):
            _object_to_kind(found[0], argument)
        return [
            LeafSelection(path, x.position, np.shape(x.value), None) for x in chosen
        ]
    if tokens and tokens[-1].startswith("["):
        owners = [leaf for leaf in leaves if matches(tokens[:-1], leaf.tokens)]
        if owners:
            last = tokens[-1]
            return [_entries(x, path, last, argument, integers) for x in owners]
    raise _wrong_path(leaves, path, argument)


def _wrong_path(leaves: list[_Leaf], path: str, argument: str) -> ValueError:
    known = sorted({joined(x.tokens[:n]) for x in leaves for n in _depths(x)} - {""})
    hint = closest_matches(path, known)
    for cuts in range(1, path.count("][") + 1):
        merged = ", ".join(path.rsplit("][", cuts))
        if any(matches(steps_of(merged)[:-1], leaf.tokens) for leaf in leaves):
            hint = f"write {merged!r}"
    return ValueError(f"{argument}={path!r} names nothing in the model; {hint}")


def _depths(leaf: _Leaf) -> range:
    return range(1, len(leaf.tokens) + 1)


def _object_to_kind(leaf: _Leaf, argument: str):
    kind = getattr(leaf.value, "dtype", type(leaf.value).__name__)
    name = repr(leaf.name) if leaf.name else "the array itself"
    raise ValueError(
        f"{argument}: {name} is {kind}, and only floating-point numbers can "
        "vary; store it as a float if it is a quantity"
    )


def _entries(
    leaf: _Leaf, path: str, index: str, argument: str, integers: bool
) -> LeafSelection:
    if not leaf.floating and not (integers and leaf.integer):
        _object_to_kind(leaf, argument)
    shape = np.shape(leaf.value)
    steps = split_index(index[1:-1], leaf.labels)
    try:
        key = tuple(_step(word, i, leaf) for i, word in enumerate(steps))
        chosen = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)[key]
    except (IndexError, ValueError) as error:
        hint = f"; {closest_matches(steps[0], leaf.labels)}" if leaf.labels else ""
        raise ValueError(
            f"{argument}={path!r} is no entry of {leaf.name or 'the array'!r} with "
            f"shape {shape}{hint}"
        ) from error
    return LeafSelection(
        path, leaf.position, chosen.shape, tuple(map(int, chosen.reshape(-1)))
    )


def _step(word: str, axis: int, leaf: _Leaf) -> int | slice:
    if axis == 0 and word in leaf.labels:
        return leaf.labels.index(word)
    if ":" in word:
        return slice(*(int(n) if n.strip() else None for n in word.split(":")))
    return int(word)


def _parts_of_nodes(
    tree: PyTree, leaves: list[_Leaf], where: Callable, argument: str
) -> tuple[LeafSelection, ...]:
    """Parts for a `where` function: it is shown the tree with our leaves in place."""
    shown = jax.tree.unflatten(jax.tree.structure(tree), leaves)
    try:
        chosen = jax.tree.leaves(where(shown))
        strange = [type(x).__name__ for x in chosen if not isinstance(x, _Leaf)]
        if strange:
            raise TypeError(f"it returned {strange[0]}")
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(
            f"{argument} as a function must return nodes of the model ({error}); "
            "write single entries as a path, 'bodies.masses[5]'"
        ) from error
    floating = [leaf for leaf in chosen if leaf.floating]
    if chosen and not floating:
        _object_to_kind(chosen[0], argument)
    return tuple(
        LeafSelection(x.name, x.position, np.shape(x.value), None) for x in floating
    )


def _names(part: LeafSelection, leaf: _Leaf) -> list[str]:
    shape = np.shape(leaf.value)
    if not shape:
        return [leaf.name]
    flat = range(int(np.prod(shape))) if part.entries is None else part.entries
    indices = np.stack(np.unravel_index(np.asarray(flat, int), shape), axis=-1)
    heads = leaf.labels or range(shape[0])
    return [
        f"{leaf.name}[{', '.join([str(heads[i[0]]), *map(str, i[1:])])}]"
        for i in indices
    ]


def _object_to_repeats(
    parts: Sequence[LeafSelection], leaves: list[_Leaf], argument: str
):
    for leaf in {part.leaf for part in parts}:
        mine = [part for part in parts if part.leaf == leaf]
        size = int(np.prod(np.shape(leaves[leaf].value), dtype=int))
        flat = [
            np.arange(size) if part.entries is None else np.asarray(part.entries, int)
            for part in mine
        ]
        twice = np.flatnonzero(np.bincount(np.concatenate(flat), minlength=size) > 1)
        if twice.size:
            entry = int(twice[0])
            (name,) = _names(LeafSelection("", leaf, (), (entry,)), leaves[leaf])
            by = [
                p.path for p, f in zip(mine, flat, strict=True) for e in f if e == entry
            ]
            raise ValueError(
                f"{argument} names {name!r} twice, by {by[0]!r} and by {by[1]!r}; "
                "name every number once"
            )


def _object_to_shared_name(
    tree: PyTree, parts: Sequence[LeafSelection], leaves: list[_Leaf], argument: str
):
    """A dict key with dots or brackets may spell the path of another leaf."""
    keys = [keys for keys, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    seen: dict[str, int] = {}
    for part in parts:
        for name in _names(part, leaves[part.leaf]):
            if seen.setdefault(name, part.leaf) != part.leaf:
                one, other = (
                    jax.tree_util.keystr(keys[i]) for i in (seen[name], part.leaf)
                )
                raise ValueError(
                    f"{argument} names {name!r}, which is both model{one} and "
                    f"model{other}; give one of the keys another name"
                )


def cast(tree: _Tree, dtype: Any) -> _Tree:
    """With every float in the type of the state, which governs."""

    def one(leaf: Any) -> object:
        floats = isinstance(leaf, jax.Array) and jnp.isdtype(
            leaf.dtype, "real floating"
        )
        return leaf.astype(dtype) if floats else leaf

    return jax.tree.map(one, tree)
