"""Explicit steps of fields as loops in Numba, on one core."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._peers import peer


def heat_loop() -> Callable[..., Any]:
    """u + h ∇·(k ∇u) between walls of value zero, k on faces as `pde.diffusion`."""
    numba = peer("numba")

    @numba.njit(fastmath=True, error_model="numpy")
    def heat(u, k, spread, steps):
        n, m = u.shape
        spread = u.dtype.type(spread)
        down = np.empty((n + 1, m), u.dtype)
        right = np.empty((n, m + 1), u.dtype)
        for j in range(m):
            down[0, j] = max(3 * k[0, j] - k[1, j], k[0, j])
            down[n, j] = max(3 * k[n - 1, j] - k[n - 2, j], k[n - 1, j])
            for i in range(1, n):
                down[i, j] = k[i - 1, j] + k[i, j]
        for i in range(n):
            right[i, 0] = max(3 * k[i, 0] - k[i, 1], k[i, 0])
            right[i, m] = max(3 * k[i, m - 1] - k[i, m - 2], k[i, m - 1])
            for j in range(1, m):
                right[i, j] = k[i, j - 1] + k[i, j]
        half = spread * u.dtype.type(0.5)
        old = np.zeros((n + 2, m + 2), u.dtype)
        new = np.zeros((n + 2, m + 2), u.dtype)
        old[1:-1, 1:-1] = u
        for _ in range(steps):
            for j in range(1, m + 1):
                old[0, j], old[n + 1, j] = -old[1, j], -old[n, j]
            for i in range(1, n + 1):
                old[i, 0], old[i, m + 1] = -old[i, 1], -old[i, m]
                for j in range(1, m + 1):
                    c = old[i, j]
                    new[i, j] = c + half * (
                        down[i, j - 1] * (old[i + 1, j] - c)
                        - down[i - 1, j - 1] * (c - old[i - 1, j])
                        + right[i - 1, j] * (old[i, j + 1] - c)
                        - right[i - 1, j - 1] * (c - old[i, j - 1])
                    )
            old, new = new, old
        return old[1:-1, 1:-1]

    return heat


def upwind_loop() -> Callable[..., Any]:
    """u − h v·∇u on a torus, from the side that the flow (1, 1/2) comes from."""
    numba = peer("numba")

    @numba.njit(fastmath=True, error_model="numpy")
    def upwind(u, carried, steps):
        n, m = u.shape
        cx, cy = u.dtype.type(carried), u.dtype.type(carried / 2)
        old, new = u.copy(), np.empty_like(u)
        for _ in range(steps):
            for i in range(n):
                before = old[i - 1] if i > 0 else old[n - 1]
                line = old[i]
                new[i, 0] = (
                    line[0] - cx * (line[0] - before[0]) - cy * (line[0] - line[m - 1])
                )
                for j in range(1, m):
                    new[i, j] = (
                        line[j]
                        - cx * (line[j] - before[j])
                        - cy * (line[j] - line[j - 1])
                    )
            old, new = new, old
        return old

    return upwind


def swirl_loop() -> Callable[..., Any]:
    """u − h ∇·(v u) on a torus, v given on faces, whichever way it points on each."""
    numba = peer("numba")

    @numba.njit(fastmath=True, error_model="numpy")
    def swirl(u, down, right, step, steps):
        n, m = u.shape
        zero, step = u.dtype.type(0), u.dtype.type(step)
        old, new = np.zeros((2, n + 2, m + 2), u.dtype)
        old[1:-1, 1:-1] = u
        for _ in range(steps):
            old[0], old[n + 1] = old[n], old[1]
            for i in range(1, n + 1):
                old[i, 0], old[i, m + 1] = old[i, m], old[i, 1]
                for j in range(1, m + 1):
                    c = old[i, j]
                    a, b = down[i - 1, j - 1], down[i, j - 1]
                    d, e = right[i - 1, j - 1], right[i - 1, j]
                    new[i, j] = c - step * (
                        max(b, zero) * c
                        + min(b, zero) * old[i + 1, j]
                        - max(a, zero) * old[i - 1, j]
                        - min(a, zero) * c
                        + max(e, zero) * c
                        + min(e, zero) * old[i, j + 1]
                        - max(d, zero) * old[i, j - 1]
                        - min(d, zero) * c
                    )
            old, new = new, old
        return old[1:-1, 1:-1]

    return swirl


def muscl_loop() -> Callable[..., Any]:
    """`upwind_loop` with van Albada's slopes, faces of two rows at a time."""
    numba = peer("numba")
    risen, framed = _limited(numba)

    @numba.njit(fastmath=True, error_model="numpy")
    def muscl(u, carried, steps):
        n, m = u.shape
        cx, cy = u.dtype.type(carried), u.dtype.type(carried / 2)
        half, tiny = u.dtype.type(0.5), u.dtype.type(1e-14)
        new, wide = u.copy(), np.empty((n + 4, m + 4), u.dtype)
        below, above, side = np.empty((3, m + 1), u.dtype)
        for _ in range(steps):
            framed(new, wide)
            for i in range(-1, n):
                before, here, after = wide[i + 1], wide[i + 2], wide[i + 3]
                below, above = above, below
                for j in range(m):
                    q = here[j + 2]
                    above[j] = q + risen(
                        q - before[j + 2], after[j + 2] - q, half, tiny
                    )
                if i < 0:
                    continue
                for j in range(m + 1):
                    q = here[j + 1]
                    side[j] = q + risen(q - here[j], here[j + 2] - q, half, tiny)
                for j in range(m):
                    new[i, j] = (
                        here[j + 2]
                        - cx * (above[j] - below[j])
                        - cy * (side[j + 1] - side[j])
                    )
        return new

    return muscl


def swirl_muscl_loop() -> Callable[..., Any]:
    """`swirl_loop` with van Albada's slopes, each of them made once."""
    numba = peer("numba")
    risen, framed = _limited(numba)

    @numba.njit(fastmath=True, error_model="numpy", inline="always")
    def passed(v, left, right, zero):
        return max(v, zero) * left + min(v, zero) * right

    @numba.njit(fastmath=True, error_model="numpy")
    def muscl(u, down, right, step, steps):
        n, m = u.shape
        zero, step = u.dtype.type(0), u.dtype.type(step)
        half, tiny = u.dtype.type(0.5), u.dtype.type(1e-14)
        new, wide = u.copy(), np.empty((n + 4, m + 4), u.dtype)
        below, above, slope, next_slope = np.zeros((4, m), u.dtype)
        side, across = np.empty((2, m + 2), u.dtype)
        for _ in range(steps):
            framed(new, wide)
            for i in range(-2, n):
                here, after, last = wide[i + 2], wide[i + 3], wide[i + 4]
                below, above, slope, next_slope = above, below, next_slope, slope
                for j in range(m):
                    q = after[j + 2]
                    next_slope[j] = risen(q - here[j + 2], last[j + 2] - q, half, tiny)
                if i < -1:
                    continue
                for j in range(m):
                    above[j] = passed(
                        down[i + 1, j],
                        here[j + 2] + slope[j],
                        after[j + 2] - next_slope[j],
                        zero,
                    )
                if i < 0:
                    continue
                for j in range(m + 2):
                    q = here[j + 1]
                    across[j] = risen(q - here[j], here[j + 2] - q, half, tiny)
                for j in range(m + 1):
                    side[j] = passed(
                        right[i, j],
                        here[j + 1] + across[j],
                        here[j + 2] - across[j + 1],
                        zero,
                    )
                for j in range(m):
                    new[i, j] = here[j + 2] - step * (
                        above[j] - below[j] + side[j + 1] - side[j]
                    )
        return new

    return muscl


def _limited(numba: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Half of van Albada's slope, and a torus with two cells more around it."""

    @numba.njit(fastmath=True, error_model="numpy", inline="always")
    def risen(a, b, half, tiny):
        return half * (a + b) * (a * b + tiny) / (a * a + b * b + tiny + tiny)

    @numba.njit(fastmath=True, error_model="numpy")
    def framed(u, wide):
        n, m = u.shape
        for i in range(-2, n + 2):
            wide[i + 2, 2:-2] = u[(i + n) % n]
        wide[:, :2] = wide[:, m : m + 2]
        wide[:, -2:] = wide[:, 2:4]

    return risen, framed
