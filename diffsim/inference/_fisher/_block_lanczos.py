"""Leading eigenpairs of a symmetric matrix that is known by its products."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


#: Vectors that are multiplied at once; of an eigenvalue of higher multiplicity a block
#: of this width sees no more copies.
WIDTH = 12


class Eigenpairs(NamedTuple):
    """Eigenvalues, largest first, eigenvectors as rows and the norms |Fv − λv|."""

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    products: int


#: Told after every block: the number of products, how many pairs have converged, and
#: the largest residual over the largest eigenvalue.
Show = Callable[[int, int, float], None]


def leading_eigenpairs(
    multiply: Callable[[np.ndarray], np.ndarray],
    size: int,
    k: int,
    *,
    tol: float,
    max_products: int,
    seed: int,
    dtype: Any,
    show: Show,
) -> Eigenpairs:
    """The k algebraically largest, by block Lanczos with full reorthogonalization.

    From one vector Lanczos finds one copy of a multiple eigenvalue, as any field on a
    symmetric domain has, and from b vectors b copies: no eigenvalue is missed as long
    as each found above the last one has fewer copies. If one has as many, b more
    random vectors join, and go through as many blocks as the first did.

    LOBPCG takes more products, by a factor of one to five, measured for 20 and 60
    eigenpairs of fields that diffuse at iteration limits that were doubled.

    Orthogonalization keeps all its coefficients, so residuals are those of the products
    as they came: where `multiply` is not symmetric they stay large.

    **Arguments:** `multiply` takes and returns vectors as rows.
    """
    space = _KrylovSpace(size, seed, dtype)
    width = min(k, WIDTH)
    space.append_random(width)
    rounds = needed = 0
    while True:
        images = multiply(space.waiting)
        if not np.all(np.isfinite(images)):
            nothing = np.full(k, math.nan)
            vectors = np.full((k, size), math.nan, dtype)
            return Eigenpairs(nothing, vectors, nothing, space.products + len(images))
        space.extend(images)
        rounds += 1
        values, vectors_of, residuals = space.ritz_pairs(k)
        largest = max(np.max(np.abs(values)), np.finfo(dtype).tiny)
        relative = residuals / largest
        show(space.products, int(np.sum(relative <= tol)), float(np.max(relative)))
        converged = len(values) == k and bool(np.all(relative <= tol))
        if converged and (rounds >= needed or space.is_complete):
            # One above the last was found as often as there are starts, and may have
            # more copies; the last cluster lacks none that would be larger.
            steps = np.diff(values / largest, prepend=np.inf)
            copies = np.diff(np.flatnonzero(steps < -tol))
            if space.is_complete or not np.any(copies >= width):
                return Eigenpairs(values, vectors_of(), residuals, space.products)
            space.append_random(width)
            width, needed = 2 * width, 2 * rounds
        elif not len(space.waiting):
            space.append_random(width)
        ahead = space.products + len(space.waiting)
        if ahead > max_products or space.is_complete:
            reached = int(np.sum(relative <= tol))
            worst = f"{np.max(relative):.1e}" if len(relative) == k else "unknown"
            raise ValueError(
                f"max_products: {reached} of {k} modes converged within "
                f"{space.products} products, with residuals up to {worst} of the "
                f"largest eigenvalue and tol {tol:.1e}; take fewer modes, a larger tol "
                "or more max_products"
            )


class _KrylovSpace:
    """An orthonormal basis, of which the last vectors wait to be multiplied.

    With Q the basis as rows and p of them multiplied, F Q[:p]ᵀ = Qᵀ H.
    """

    def __init__(self, size: int, seed: int, dtype: Any):
        self.basis = np.zeros((0, size), dtype)
        self.rows: list[np.ndarray] = []  # of Hᵀ, each as long as the basis was
        self.random = np.random.default_rng(seed)
        self.norm = 0.0

    @property
    def products(self) -> int:
        """How many vectors have been multiplied."""
        return len(self.rows)

    @property
    def waiting(self) -> np.ndarray:
        """Vectors that have not been."""
        return self.basis[self.products :]

    @property
    def is_complete(self) -> bool:
        """Whether every direction there is has been multiplied."""
        return self.products == self.basis.shape[1]

    def append_random(self, count: int):
        """Begin further Krylov sequences, as many as there is room for."""
        size = self.basis.shape[1]
        count = min(count, size - len(self.basis))
        drawn = self.random.normal(size=(count, size)).astype(self.basis.dtype)
        self._append(_orthogonal(self._beside(drawn), 0.0))

    def extend(self, images: np.ndarray):
        """Take the images of what waits, and append what is new in them."""
        self.norm = max(self.norm, float(np.max(np.linalg.norm(images, axis=1))))
        rounding = float(np.finfo(images.dtype).eps) ** 0.8
        room = self.basis.shape[1] - len(self.basis)
        self._append(_orthogonal(self._beside(images), rounding * self.norm)[:room])
        self.rows += list(images.dot(self.basis.T))

    def ritz_pairs(self, k: int) -> tuple[np.ndarray, Callable, np.ndarray]:
        """Up to k eigenvalues, a function to their vectors, and residuals."""
        count, width = self.products, len(self.basis)
        h = np.zeros((count, width))
        for row, entries in zip(h, self.rows, strict=True):
            row[: len(entries)] = entries
        square = h[:, :count]
        values, mix = np.linalg.eigh((square + square.T) / 2)
        values, mix = values[::-1][:k], mix[:, ::-1][:, :k]
        beside = h.T.dot(mix)
        beside[:count] -= mix * values
        basis = self.basis[:count]

        def vectors() -> np.ndarray:
            return mix.T.astype(basis.dtype).dot(basis)

        return values, vectors, np.linalg.norm(beside, axis=0)

    def _beside(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors less their part in the basis."""
        for _ in range(2):  # the second pass removes what rounding left of the first
            vectors = vectors - vectors.dot(self.basis.T).dot(self.basis)
        return vectors

    def _append(self, vectors: np.ndarray):
        # Cancellation left a part in the basis, relative to their size.
        if len(vectors):
            vectors = np.linalg.qr(self._beside(vectors).T)[0].T
        self.basis = np.concatenate([self.basis, vectors])


def _orthogonal(vectors: np.ndarray, least: float) -> np.ndarray:
    """Orthonormal rows for the span of `vectors`, without what is below `least`."""
    _, sizes, rows = np.linalg.svd(vectors, full_matrices=False)
    return rows[sizes > least]
