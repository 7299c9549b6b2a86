"""How a case is measured: compile apart, contestants in turns, the best of many."""

import dataclasses
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long a case may take; `tiny` shows that it runs, its numbers mean nothing.

    Every contest has at least `rounds` rounds and goes on for `seconds`.
    """

    rounds: int = 7
    seconds: float = 10.0
    tiny: bool = False

    def size(self, full: int, tiny: int) -> int:
        """A size of the problem."""
        return tiny if self.tiny else full


@dataclasses.dataclass(frozen=True)
class Row:
    """One measured number and what must be known to judge it.

    - `what`, `value`, `unit`: in words, and the number; "×" is a ratio to `peer`.
    - `target`, `at_least`: what was asked for; None where nothing was.
    - `seconds`, `peer_seconds`: best times behind a ratio.
    - `error`, `reference`: error reached, relative, and against what.
    - `compile_seconds`, `memory_bytes`: of the compiled program, tracing included;
        temporaries and outputs.
    - `noise`: by how much the median time exceeds the best, the worse of both sides.
    - `away`: share of the best time in which the core served others, the worse of both
        sides. Long runs suffer from that and short ones slip through: above a few per
        cent a ratio means nothing.
    - `details`: every other number.
    """

    what: str
    value: float
    unit: str = "×"
    peer: str | None = None
    target: float | None = None
    at_least: bool = False
    seconds: float | None = None
    peer_seconds: float | None = None
    error: float | None = None
    reference: str | None = None
    compile_seconds: float | None = None
    memory_bytes: int | None = None
    noise: float | None = None
    away: float | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the target, if there is one, is met."""
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target


@dataclasses.dataclass(frozen=True)
class Case:
    """Something to measure: `measure(effort)` gives its rows; `device`: cpu or gpu.

    `processes`: of how many the median is taken, where numbers differ between them.
    """

    name: str
    about: str
    measure: Callable[[Effort], list[Row]]
    device: str = "cpu"
    processes: int = 1


class Program(NamedTuple):
    """A compiled function: its turn in a contest, its value, what it took."""

    turn: Callable[[], Callable[[], Any]]
    value: Any
    compile_seconds: float
    memory_bytes: int


class Times(NamedTuple):
    """Seconds of one contestant."""

    best: float
    median: float
    rounds: int
    away: float

    @property
    def noise(self) -> float:
        """By how much the median exceeds the best."""
        return self.median / self.best - 1


def compiled(function: Callable[..., Any], *inputs: Any) -> Program:
    """Compiles `function` for `inputs` and runs it once."""
    jitted = jax.jit(function)
    start = time.perf_counter()
    executable = jitted.lower(*inputs).compile()
    seconds = time.perf_counter() - start
    # The call finds that executable again; called directly it would miss jit's fast
    # path, 30 µs out of a run of 1400.
    value = jax.block_until_ready(jitted(*inputs))
    return Program(
        lambda: lambda: jax.block_until_ready(jitted(*inputs)),
        value,
        seconds,
        memory_of(executable),
    )


def once(program: Program) -> float:
    """Seconds of one more run, of what takes too long for a contest."""
    run = program.turn()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def memory_of(executable: Any) -> int:
    """Bytes of temporaries and outputs of a compiled program."""
    found = executable.memory_analysis()
    return int(found.temp_size_in_bytes + found.output_size_in_bytes)


def contest(
    effort: Effort, **contestants: Callable[[], Callable[[], Any]]
) -> dict[str, Times]:
    """Times contestants in turns, A B A B, so that what disturbs one disturbs all.

    A contestant prepares itself, untimed, and returns what is timed. A first turn each
    is not counted: caches of jit and processor are cold.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    gc.collect()
    gc.disable()
    try:
        for prepare in contestants.values():
            prepare()()
        began, rounds = time.perf_counter(), 0
        while rounds < effort.rounds or time.perf_counter() - began < effort.seconds:
            for name, prepare in contestants.items():
                run = prepare()
                found[name].append(_timed(run))
            rounds += 1
    finally:
        gc.enable()
    return {name: _times(turns) for name, turns in found.items()}


def _timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock, and those that this process had a core."""
    start, worked = time.perf_counter(), time.process_time()
    run()
    worked = time.process_time() - worked
    return time.perf_counter() - start, worked


def _times(turns: list[tuple[float, float]]) -> Times:
    best, worked = min(turns)
    median = statistics.median(seconds for seconds, _ in turns)
    return Times(best, median, len(turns), max(0.0, 1 - worked / best))


def ratio(
    what: str, ours: Times, theirs: Times, *, program: Program | None = None, **rest
) -> Row:
    """A row of `ours / theirs`, with compile time and memory of `program`."""
    if program is not None:
        rest.setdefault("compile_seconds", program.compile_seconds)
        rest.setdefault("memory_bytes", program.memory_bytes)
    return Row(
        what,
        ours.best / theirs.best,
        seconds=ours.best,
        peer_seconds=theirs.best,
        noise=max(ours.noise, theirs.noise),
        away=max(ours.away, theirs.away),
        **{**rest, "details": {"rounds": ours.rounds, **rest.get("details", {})}},
    )


def speedup(what: str, ours: Times, theirs: Times, **rest: Any) -> Row:
    """A row of `theirs / ours`, how many times as fast; its target is a lower bound."""
    row = ratio(what, ours, theirs, **rest)
    return dataclasses.replace(row, value=1 / row.value, at_least=True)


def deviation(found: Any, reference: Any) -> float:
    """Largest difference over the largest value, of the worst of several arrays."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(reference), strict=True)
    return max(float(_deviation(np.asarray(a), np.asarray(b))) for a, b in pairs)


def _deviation(found, reference):
    assert found.shape == reference.shape, (found.shape, reference.shape)
    return np.abs(found - reference).max() / np.abs(reference).max()
