"""Explicit steps of fields as loops in Numba, on one core."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._peers import peer


def heat_loop() -> Callable[..., Any]:
    """u + h ∇·(k ∇u) between walls of value zero, k on faces as `pde.diffusion`."""
    numba = peer("numba")

    @numba.njit(fastmath=True)
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

    @numba.njit(fastmath=True)
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


def muscl_loop() -> Callable[..., Any]:
    """The same with van Albada's slopes, faces of two rows at a time."""
    numba = peer("numba")

    @numba.njit(fastmath=True, inline="always")
    def risen(a, b, half, tiny):
        return half * (a + b) * (a * b + tiny) / (a * a + b * b + tiny + tiny)

    @numba.njit(fastmath=True)
    def framed(u, wide):
        n, m = u.shape
        for i in range(-2, n + 2):
            wide[i + 2, 2:-2] = u[(i + n) % n]
        wide[:, :2] = wide[:, m : m + 2]
        wide[:, -2:] = wide[:, 2:4]

    @numba.njit(fastmath=True)
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
