"""How a path to numbers in a pytree is written, read and matched."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any


def steps_of(path: str) -> tuple[str, ...]:
    """Steps of a path; within its brackets may be others, as in `masses[a[1]]`."""
    return tuple(re.findall(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]|[^.\[\]]+", path))


def step_to(key: Any) -> str:
    """One step of a path as written: an attribute or dict key bare, an index `[i]`."""
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            step = getattr(key, attribute)
            return step if isinstance(step, str) else f"[{step}]"
    return str(key)


def joined(tokens: Sequence[str]) -> str:
    text = "".join(t if t.startswith("[") else f".{t}" for t in tokens)
    return text.removeprefix(".")


def matches(pattern: Sequence[str], tokens: Sequence[str]) -> bool:
    return len(pattern) == len(tokens) and leads_to(pattern, tokens)


def leads_to(pattern: Sequence[str], tokens: Sequence[str]) -> bool:
    return len(pattern) <= len(tokens) and all(
        p in ("*", t) for p, t in zip(pattern, tokens, strict=False)
    )


def split_index(index: str, labels: Sequence[str]) -> list[str]:
    """The steps of an index at its commas, but those within a label."""
    # Of two labels that fit, as of "Earth" and "Earth, Moon", the longer one is meant.
    for label in sorted(labels, key=len, reverse=True):
        head = re.match(rf"\s*(['\"]?){re.escape(label)}\1\s*(,|$)", index)
        if head:
            rest = index[head.end() :].strip()
            return [label, *(rest.split(",") if rest else ())]
    return [word.strip().strip("'\"") for word in index.split(",")]


def several(paths: Any, argument: str) -> tuple[str, ...]:
    alone = isinstance(paths, str) or not isinstance(paths, Iterable)
    found: tuple[Any, ...] = (paths,) if alone else tuple(paths)
    if not all(isinstance(path, str) for path in found):
        raise ValueError(
            f"{argument} must be a path or several, 'bodies.masses' say, got {paths!r}"
        )
    return found


def closest_matches(word: str, words: Sequence[str]) -> str:
    """The few `words` most like `word`, for error messages."""
    found = difflib.get_close_matches(word, words, n=3, cutoff=0.5)
    return f"near are {listed(found)}" if found else f"there are {listed(words)}"


def listed(words: Any, most: int = 12) -> str:
    words = list(words)
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return (", ".join(repr(w) for w in words[:most]) or "none") + rest
