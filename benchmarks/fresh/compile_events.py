"""Tracing, lowering and compiling, as JAX itself reports them."""

import dataclasses
import time
from typing import Any

import jax


#: JAX's names of what it times.
_PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
_CACHE_HIT = "/jax/compilation_cache/cache_hits"

#: Seconds by which JAX may report an end late.
_LATE = 1e-4


@dataclasses.dataclass
class CompileEvents:
    """Seconds in each phase, without those of what lies inside; programs; cache hits.

    A function that is traced traces those that it calls, and JAX counts their seconds
    for both. Taken from the outer one, what is left adds up to the time on the clock.
    """

    tracing: float = 0.0
    lowering: float = 0.0
    compiling: float = 0.0
    programs: list[str] = dataclasses.field(default_factory=list)
    cache_hits: int = 0
    #: Starts and seconds of what ended, and lies in nothing that ended.
    _outermost: list[tuple[float, float]] = dataclasses.field(default_factory=list)

    def listen(self) -> "CompileEvents":
        """Count from now on."""
        jax.monitoring.register_event_duration_secs_listener(self._record)
        jax.monitoring.register_event_listener(self._record_hit)
        return self

    def copy(self) -> "CompileEvents":
        """Return what was counted so far."""
        return dataclasses.replace(
            self, programs=self.programs.copy(), _outermost=self._outermost.copy()
        )

    def _record(self, event: str, duration_secs: float, **about: Any):
        if (phase := _PHASES.get(event)) is None:
            return
        if phase == "compiling":
            self.programs.append(str(about.get("fun_name", "?")))
        start, inside = time.perf_counter() - duration_secs, 0.0
        while self._outermost and self._outermost[-1][0] > start - _LATE:
            inside += self._outermost.pop()[1]
        self._outermost.append((start, duration_secs))
        setattr(self, phase, getattr(self, phase) + duration_secs - inside)

    def _record_hit(self, event: str, **about: Any):
        self.cache_hits += event == _CACHE_HIT
