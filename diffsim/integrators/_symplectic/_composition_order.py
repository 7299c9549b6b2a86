"""Order of a symmetric composition of leapfrog, from the order conditions."""

import functools
import math


#: The largest power of the step that is looked at: orders up to one more are found.
_HIGHEST = 11
#: What rounding of weights to 11 digits leaves of a condition, whose terms add up to 1
#: without their signs. One that is not met leaves 1e-3, even of order 10.
_MET = 1e-10

#: A product of the operators Y₁, Y₃, ..., by their indices.
_Word = tuple[int, ...]


@functools.lru_cache(maxsize=64)
def composition_order(weights: tuple[float, ...]) -> int:
    r"""The largest even order, up to 12, whose conditions these symmetric weights meet.

    Leapfrog is $S_h = \exp(h Y_1 + h^3 Y_3 + h^5 Y_5 + \dots)$, with operators that do
    not commute. The composition is a sum over products of these, and of order p where
    it is $\exp(h Y_1)$ up to the power p of h.
    """
    words = _words()
    found: dict[_Word, float] = {(): 1.0}
    sizes = found
    for w in weights:
        found = {word: _appended(found, word, w) for word in words}
        sizes = {word: _appended(sizes, word, abs(w)) for word in words}
    for power in range(3, _HIGHEST + 1, 2):
        # Even powers follow: the composition is time-symmetric.
        for word in words:
            flow = 1 / math.factorial(power) if len(word) == power else 0.0
            missed = abs(found[word] - flow) > _MET * sizes[word]
            if sum(word) == power and missed:
                return power - 1
    return _HIGHEST + 1


def _appended(before: dict[_Word, float], word: _Word, w: float) -> float:
    """The coefficient of `word` after one more leapfrog step, of length w."""
    return math.fsum(
        before[word[:k]] * w ** sum(word[k:]) / math.factorial(len(word) - k)
        for k in range(len(word) + 1)
        if word[:k] in before
    )


@functools.cache
def _words() -> tuple[_Word, ...]:
    """Products of odd indices that add up to the highest power or less."""
    found: list[_Word] = [()]
    for word in found:
        room = _HIGHEST - sum(word)
        found.extend((*word, index) for index in range(1, room + 1, 2))
    return tuple(found)
