"""Schedule of segments: which fixed steps lead to which output."""

import dataclasses

import numpy as np

from ... import _tuning


#: An output within this many ulps of a grid time is that grid time: `k * 0.1` and
#: `linspace` differ from the grid by a few roundings.
ULPS_ON_GRID = 16

#: Dates tell steps from one another if their rounding is less than this of a step.
_FINE = 1e-6


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A run as equal segments: `size` steps each, of which `counts[i]` are taken.

    The state is kept at the start and at the end of each segment; output `k` starts
    from kept state `rows[k]`. `counts` is None where every segment is full. Hashable,
    so that compiled code is found again.
    """

    size: int
    segments: int
    counts: tuple[int, ...] | None
    rows: tuple[int, ...]

    @classmethod
    def reaching(cls, steps: np.ndarray, *, segments: int = 1) -> "Schedule":
        """The cheapest schedule that keeps the state after each of `steps` steps.

        **Arguments:** `steps` ascending non-negative integers; `segments` the least
        number of segments in a run that is long enough (a progress meter moves once a
        segment).
        """
        ends = np.unique(steps[steps > 0])
        if ends.size == 0:
            return cls(0, 0, None, (0,) * steps.size)
        gaps = np.diff(ends, prepend=0)
        size = _cheapest_size(gaps, ceiling=max(1, int(ends[-1]) // segments))
        whole, rest = gaps // size, gaps % size
        last_segment = np.cumsum(whole + (rest > 0))
        counts = np.full(last_segment[-1], size)
        partial = rest > 0
        counts[last_segment[partial] - 1] = rest[partial]
        rows = np.concatenate([[0], last_segment])[
            np.searchsorted(ends, steps, "right")
        ]
        return cls(
            int(size),
            counts.size,
            tuple(counts.tolist()) if partial.any() else None,
            tuple(rows.tolist()),
        )

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return self.size * self.segments if self.counts is None else sum(self.counts)


def grid_steps(
    times: np.ndarray, t0: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Whole steps from `t0` to each of `times`, all on one side of it, and what remains
    beyond.

    The remainder is exactly zero for times on the grid but for their rounding.
    """
    elapsed = np.abs(np.asarray(times, np.float64) - t0)
    ratio = elapsed / step
    nearest = np.rint(ratio)
    # By the type in which times were given, and where a date is large by its own digits
    # as long as they tell one step from another.
    rounding = ULPS_ON_GRID * np.spacing(elapsed.astype(times.dtype))
    dates = ULPS_ON_GRID * np.spacing(np.maximum(np.abs(times), abs(t0)))
    rounding = np.where(dates < _FINE * step, np.maximum(rounding, dates), rounding)
    on_grid = np.abs(elapsed - nearest * step) <= rounding
    steps = np.where(on_grid, nearest, np.floor(ratio)).astype(np.int64)
    return steps, np.where(on_grid, 0.0, elapsed - steps * step)


def _cheapest_size(gaps: np.ndarray, *, ceiling: int) -> int:
    common = int(np.gcd.reduce(gaps))
    trial = np.quantile(gaps, [0.1, 0.25, 0.5, 0.75, 0.9, 1.0]).astype(np.int64)
    whole = next(
        size for size in range(min(common, ceiling), 0, -1) if not common % size
    )
    sizes = {max(1, min(int(size), ceiling)) for size in (whole, *trial)}
    return min(sizes, key=lambda size: (_cost(gaps, size), -size))


def _cost(gaps: np.ndarray, size: int) -> float:
    segments = (-(-gaps // size)).sum()
    full = not (gaps % size).any()
    step = 1.0 if full else _tuning.COST_OF_MASK
    return float(segments * (size * step + _tuning.COST_OF_OUTPUT))
