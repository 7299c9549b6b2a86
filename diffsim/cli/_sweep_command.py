"""`run_sweep`: a sweep from the command line, that can be stopped and goes on."""

import argparse
import datetime
import signal
import sys
import time
from typing import Any

import equinox as eqx

from .._configure import configure
from .._progress import progress_text, show_line
from .._validation import function_of
from ..sweeps import SweepOptions, store_status, sweep
from ._sweep_file import named_object, read_sweep_file


#: Seconds between two lines where nobody sees one move.
_PAUSE = 10.0


def run_sweep(given: argparse.Namespace) -> int:
    """Run `diffsim sweep`; 3 where runs failed, 130 where it was stopped.

    What is wrong with the command, or with `predict`, ends in 1 or 2.
    """
    if given.status is not None:
        print(store_status(given.status))
        return 0
    if given.predict is None or given.file is None or given.store is None:
        raise ValueError(
            "write diffsim sweep module:function sweep.toml --store runs.zarr, or "
            "diffsim sweep --status runs.zarr"
        )
    if given.cpu_devices is not None:
        configure(num_cpu_devices=given.cpu_devices)
    described = read_sweep_file(given.file)
    settings = dict(described.settings)
    configure(enable_x64=settings.pop("float64", True))
    predict, model = named_object(given.predict), named_object(described.model)
    if not callable(predict):
        raise ValueError(f"{given.predict} is no function but {predict!r:.60}")
    if callable(model) and not isinstance(model, eqx.Module):
        function_of(described.model, model, ())
        model = model()
    limits = {name: settings.pop(name, None) for name in ("chunk", "memory")}
    options = SweepOptions(
        part=given.part,
        retry="failed" if given.retry_failed else None,
        **limits,
    )
    return _run(given.store, predict, model, described.over, settings, options)


def _run(
    store: str,
    predict: Any,
    model: Any,
    over: Any,
    settings: dict[str, Any],
    options: SweepOptions,
) -> int:
    line = _ProgressLine()
    options = SweepOptions(**{**vars(options), "progress": line.show})
    before = signal.signal(signal.SIGINT, line.stop)
    try:
        found = sweep(predict, model, over, store=store, options=options, **settings)
    except KeyboardInterrupt:
        print(f"\ndiffsim sweep: stopped; {store_status(store)}", file=sys.stderr)
        print("The same command goes on from there.", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGINT, before)
    line.end()
    print(found)
    print(f"in {store}: {store_status(store)}")
    return 0 if found.successful.all() else 3


class _ProgressLine:
    """Runs done, how many failed, how many a second, and the time that is left."""

    def __init__(self):
        self.begun = self.shown = time.monotonic()
        self.first: int | None = None
        self.stopping = False
        self.moves = sys.stderr.isatty()

    def show(self, state: dict[str, Any]):
        """Take news of a chunk, and end the sweep if that was asked for."""
        if self.first is None:
            self.begun, self.first = time.monotonic(), state["done"]
        now, last = time.monotonic(), state["done"] == state["runs"]
        if self.moves or last or now - self.shown > _PAUSE:
            self.shown = now
            text = self._text(state, now - self.begun)
            if self.moves:
                show_line(text)
            else:
                print(text, file=sys.stderr, flush=True)
        if self.stopping and not last:
            raise KeyboardInterrupt

    def _text(self, state: dict[str, Any], seconds: float) -> str:
        done, runs = state["done"], state["runs"]
        rate = (done - (self.first or 0)) / seconds if seconds > 0 else 0.0
        parts = [f"{done} of {runs} runs", f"{state['failed']} failed"]
        if rate:
            left = datetime.timedelta(seconds=round((runs - done) / rate))
            parts += [f"{rate:.3g} runs/s", f"{left} left"]
        return progress_text("sweep", *parts)

    def stop(self, *_: Any):
        """Finish the chunk; a second time, stop at once."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        text = "finishing the chunk; once more stops at once, and loses it"
        print(f"\ndiffsim sweep: {text}", file=sys.stderr, flush=True)

    def end(self):
        """Leave the line where it is."""
        if self.moves:
            print(file=sys.stderr)
