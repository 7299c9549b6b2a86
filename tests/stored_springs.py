"""A small sweep with a store, and what is in one: shared by tests of stores."""

import contextlib
import json

import jax
import jax.numpy as jnp
import numpy as np

from diffsim.sweeps import SweepOptions, sweep


RATES = np.linspace(0.5, 1.5, 11)
OVER = {"rate": RATES}
#: Of three runs each: chunks 0 to 3, the last of two.
CHUNKS = 4


def model(**others):
    return {"rate": jnp.array(1.0), "start": jnp.array([1.0, -0.5]), **others}


def spring(model):
    def step(carry, _):
        x, v = carry
        v = v - 0.1 * model["rate"] * x
        return (x + 0.1 * v, v), None

    return jax.lax.scan(step, (model["start"], jnp.zeros(2)), None, length=20)[0]


def run(path, predict=spring, made=None, over=OVER, *, derivative=None, **options):
    made = model() if made is None else made
    options = SweepOptions(**{"chunk": 3, **options})
    return sweep(
        predict, made, over, batch=2, store=path, derivative=derivative, options=options
    )


def _content(file):
    """Bytes; of descriptions what they say, whose order older releases of Zarr vary."""
    if file.suffix == ".json":
        with contextlib.suppress(ValueError):  # one that is damaged
            return json.loads(file.read_bytes())
    return file.read_bytes()


def content(path):
    """What each chunk comes to: files of arrays, and entries."""
    return {
        str(file.relative_to(path)): _content(file)
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.suffix != ".lock"
    }


def entry(path, chunk):
    return path / "manifest" / f"{chunk:08d}.json"


def chunk_file(path, chunk):
    """Of the first output, whose name is given by its place in the tuple."""
    (name,) = [
        x for x in json.loads(entry(path, chunk).read_text())["files"] if "[0]" in x
    ]
    return path / name


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
