"""Stages of a command: a line that moves, wall times, and how much was compiling."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from .._progress import clear_line, show_line


#: Seconds between two looks of the line.
_TICK = 0.2


class Stage(NamedTuple):
    """One stage that is done, in seconds."""

    title: str
    seconds: float
    compiling: float


class Clock:
    """Times stages one after another and shows the one that runs on `stream`.

    Where `stream` is no terminal, a line is written at the end of each stage only.
    """

    def __init__(self, stream: Any = None):
        self.stream = sys.stderr if stream is None else stream
        self.stages: list[Stage] = []
        self._news = ""

    def tell(self, news: str):
        """Show a text behind the title of the stage."""
        self._news = news

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Times what is inside."""
        self._news = ""
        began, over = time.perf_counter(), threading.Event()
        mover = threading.Thread(target=self._move, args=(title, began, over))
        mover.start()
        try:
            with _compiling() as compiling:
                yield
        finally:
            over.set()
            mover.join()
            self._wipe()
        seconds = time.perf_counter() - began
        # Tracing within tracing is counted twice by JAX.
        compiled = min(sum(compiling), seconds)
        self.stages.append(Stage(title, seconds, compiled))
        line = f"{title}: {seconds:.1f} s, of which compiling {compiled:.1f} s"
        print(line, file=self.stream, flush=True)

    def _move(self, title: str, began: float, over: threading.Event):
        if not self.stream.isatty():
            return
        while not over.wait(_TICK):
            elapsed = time.perf_counter() - began
            turning = "|/-\\"[int(elapsed / _TICK) % 4]
            line = f"{turning} {title} {self._news} … {elapsed:.0f} s"
            show_line(line, stream=self.stream)

    def _wipe(self):
        if self.stream.isatty():
            clear_line(stream=self.stream)


@contextlib.contextmanager
def _compiling() -> Iterator[list[float]]:
    """Seconds that JAX spends on tracing, lowering and compiling inside."""
    found: list[float] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int):
        del kwargs
        if event.startswith("/jax/core/compile/"):
            found.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
