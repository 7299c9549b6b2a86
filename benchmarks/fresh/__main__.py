"""`python -m benchmarks.fresh ours.orbit`: one task, timed, as a line of JSON.

`imports jax numpy` times imports, `second_values "a source"` another number; anything
else is a module here and a function in it.
"""

import argparse
import importlib
import json
import statistics
import time
from typing import Any


#: Numbers that functions hold: the first one, and another.
_NUMBER, _OTHER = 1.0, 1.25


def main():
    """Print what one task took."""
    parser = argparse.ArgumentParser("python -m benchmarks.fresh", description=__doc__)
    parser.add_argument("task")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cache", help="folder of JAX's persistent cache")
    options = parser.parse_args()
    if options.task == "imports":
        found = _imports(options.names)
    else:
        _configure(options.cache)
        second = options.task == "second_values"
        found = _second_value(*options.names) if second else _first(options.task)
    print(json.dumps(found))


def _imports(names: list[str]) -> dict[str, Any]:
    start = time.perf_counter()
    for name in names:
        importlib.import_module(name)
    return {"seconds": time.perf_counter() - start}


def _configure(cache: str | None):
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", cache is not None)
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.devices()


def _first(name: str) -> dict[str, Any]:
    """The first call of a task and the second, from imports done to results ready."""
    module, function = name.split(".")
    task = getattr(_module(module), function)
    events = _listen()
    seconds, value = _time(task)
    first = events.copy()
    again, _ = _time(task)
    return {
        "seconds": seconds,
        "tracing": first.tracing,
        "lowering": first.lowering,
        "compiling": first.compiling,
        "compilations": len(first.programs),
        "cache_hits": first.cache_hits,
        "programs": first.programs,
        "again": again,
        "compilations_again": len(events.programs) - len(first.programs),
        "value": [leaf.ravel().tolist() for leaf in value],
    }


def _second_value(name: str) -> dict[str, Any]:
    """A call with an object that holds another number, beside one with the same."""
    make, run = _module("second_values").KINDS[name]
    events, one = _listen(), make(_NUMBER)
    _, value = _time(lambda: run(one))
    same = statistics.median(_time(lambda: run(one))[0] for _ in range(3))
    known, two = len(events.programs), make(_OTHER)
    seconds, other = _time(lambda: run(two))
    if _are_equal(value, other):
        raise RuntimeError(f"{name} with another number gave the result of the first")
    programs = events.programs[known:]
    return {"same": same, "seconds": seconds, "programs": programs}


def _are_equal(value: list[Any], other: list[Any]) -> bool:
    import numpy as np

    # Times of events that did not happen are NaN.
    pairs = zip(value, other, strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __package__)


def _listen() -> Any:
    return _module("compile_events").CompileEvents().listen()


def _time(task: Any) -> tuple[float, list[Any]]:
    """Seconds until the result is ready, and its arrays."""
    import jax
    import numpy as np

    start = time.perf_counter()
    value = jax.block_until_ready(task())
    seconds = time.perf_counter() - start
    return seconds, [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


if __name__ == "__main__":
    main()
