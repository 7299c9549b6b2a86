"""Stores opened for a sweep: made if there are none, and refused if of another one."""

import contextlib
import glob
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._digest import program_digest, settings, tree_digest
from ._devices import Share
from ._store import Store
from ._store_contents import StoreContents, contents_of
from ._store_files import create, mend, modules, replace
from ._store_locks import claimed
from ._store_manifest import (
    FOLDER,
    entries,
    read_description,
    written_or_explained,
)
from ._sweep_plan import Plan


#: Parts that say something to a reader.
_IN_WORDS = {*settings(), "runs", "derivative", "error_estimate"}


@contextlib.contextmanager
def open_store(
    path: Any, plan: Plan, parameters: dict[str, np.ndarray], share: Share | None
) -> Iterator[Store]:
    """The store at `path`, made if there is none, while runs are computed."""
    path = _checked_path(path)
    modules()
    contents, identity = contents_of(plan, parameters), _identity_of(plan)
    with written_or_explained(path):
        if not path.exists():
            parts = 1 if share is None else share.count
            _create(path, plan, contents, parameters, identity, parts)
        description = read_description(path)
        if share is None and _is_begun(plan, description, identity):
            description = _extend(path, contents, parameters, description, identity)
        _check_identity(path, description["identity"], identity)
        mend(path, contents, parameters, description)
        _remove_abandoned(path)
    with _read_only(path, description) or claimed(path, share):
        store = Store(path, plan, contents, share)
        try:
            yield store
            store.write_all()
        finally:
            # What is computed is written, whatever ended the sweep.
            store.writer.shutdown()


def _read_only(
    path: Path, description: dict[str, Any]
) -> contextlib.AbstractContextManager[None] | None:
    """A context in which nothing is written, if nothing can be, and all is there."""
    chunks = -(-description["runs"] // description["chunk"])
    if os.access(path / FOLDER, os.W_OK) or len(list(entries(path))) < chunks:
        return None
    return contextlib.nullcontext()


def _create(
    path: Path,
    plan: Plan,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    identity: dict[str, str],
    parts: int,
):
    layout = plan.layouts(len(plan.devices) * parts)[0]
    chunk = plan.chunk(layout.tile)
    description = {
        "identity": identity,
        "runs": plan.table.runs,
        "chunk": chunk,
        "layout": list(layout.within(chunk)),
        "parameters": list(parameters),
    }
    create(path, contents, parameters, description)


def _is_begun(plan: Plan, there: dict[str, Any], here: dict[str, str]) -> bool:
    """Whether a store has the first of these runs, as of a longer Sobol sequence."""
    runs, old = there["runs"], there["identity"]
    first = here | {"runs": str(runs), "over": _over(plan, runs)}
    return runs < plan.table.runs and old == first


def _extend(
    path: Path,
    contents: StoreContents,
    parameters: dict[str, np.ndarray],
    description: dict[str, Any],
    identity: dict[str, str],
) -> dict[str, Any]:
    """Make room for more runs; those of a chunk that was not full are run again."""
    runs, chunk = description["runs"], description["chunk"]
    for entry in entries(path):
        if runs < (entry.chunk + 1) * chunk:
            (path / FOLDER / entry.name).unlink()
    longer = len(next(iter(parameters.values())))
    description = {**description, "identity": identity, "runs": longer}
    replace(path, contents, parameters, description)
    return read_description(path)


def _checked_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"store must be a path, 'runs.zarr' say, got {path!r:.60}")
    if "://" in str(path):
        raise ValueError(
            f"store must be a folder of this machine or a disk that it mounts, got "
            f"{str(path)!r}; copy the store there when the sweep is done"
        )
    path = Path(path).absolute()
    if not path.parent.is_dir():
        raise ValueError(
            f"store {str(path)!r}: the folder {str(path.parent)!r} does not exist; "
            "make it first"
        )
    return path


def _identity_of(plan: Plan) -> dict[str, str]:
    """Every part of a sweep by what users call it, in words or as a digest.

    The function counts by the program that it is traced to, so that another process,
    and a script that was edited elsewhere, has the same. What a callback of JAX does,
    which is not traced, does not count.
    """
    task, empty = plan.task, jax.tree.map(np.zeros_like, plan.row)
    model = jax.tree.leaves(task.selection.put(task.model, empty))
    numbers = [leaf for leaf in model if hasattr(leaf, "dtype")]
    # Arrays in the fields of a module that is called are inputs of its program.
    fields = jax.tree.leaves(eqx.filter(task.predict, eqx.is_array))
    return {
        **settings(),
        "runs": str(plan.table.runs),
        "predict": tree_digest((program_digest(plan.jaxpr), fields)),
        "model": tree_digest(numbers),
        "over": _over(plan, plan.table.runs),
        "derivative": str(task.derivative),
        "error_estimate": str(task.error_estimate),
    }


def _over(plan: Plan, runs: int) -> str:
    """A digest of what the first runs are over."""
    selection, rows = plan.task.selection, plan.table.take(slice(runs))
    return tree_digest((selection.floats.names, selection.integers.names, *rows))


def _check_identity(path: Path, there: dict[str, str], here: dict[str, str]):
    differ = [name for name in here if there.get(name) != here[name]]
    if not differ:
        return
    told = ", ".join(
        f"{name} ({there.get(name)} there, {here[name]} here)"
        if name in _IN_WORDS
        else name
        for name in differ
    )
    raise ValueError(
        f"store {str(path)!r} is of another sweep: its {told} "
        f"{'differs' if len(differ) == 1 else 'differ'}; name another store, or "
        "delete it to begin anew"
    )


def _remove_abandoned(path: Path):
    """Delete stores of this name that killed processes had begun to make."""
    for part in path.parent.glob(f"{glob.escape(path.name)}.????????.partial"):
        shutil.rmtree(part, ignore_errors=True)
