"""Labels of axes, color bars and times, where the user's own stand before ours."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


#: Fields whose name is no label.
_WRITTEN = {
    "u_t": "∂u/∂t",
    "psi_real": "Re ψ",
    "psi_imag": "Im ψ",
    "probability_density": "|ψ|²",
}


class Labels:
    """Labels by name; `labels` are the user's, as "temperature [K]".

    **Raises:** `ValueError` for a label of what is not drawn.
    """

    def __init__(self, labels: Any, known: Sequence[str]):
        if not (labels is None or isinstance(labels, Mapping)):
            raise ValueError(
                f"labels must be a dictionary by name, {{{known[-1]!r}: '...'}} say, "
                f"got {labels!r:.60}"
            )
        self._given = dict(labels or {})
        for name in self._given:
            if name not in known:
                raise ValueError(
                    f"labels has {name!r}, which is not drawn; it may have "
                    f"{', '.join(dict.fromkeys(known))}"
                )

    def __getitem__(self, name: str) -> str:
        if name in self._given:
            return self._given[name]
        return _WRITTEN.get(name, "t" if name == "time" else name.replace("_", " "))

    def value(self, name: str, number: Any) -> str:
        """A place or a time in words: "t = 2.5 s" where its label is "t [s]"."""
        label, unit = self[name], ""
        found = re.fullmatch(r"(.*?)\s*\[(.*)\]", label)
        if found:
            label, unit = found[1], f" {found[2]}"
        return f"{label} = {plain_number(number)}{unit}"


def plain_number(number: Any) -> str:
    """Up to four digits, as a person writes them."""
    return (
        np.format_float_positional(
            float(f"{float(number):.4g}"), trim="-", min_digits=0
        )
        if 1e-3 <= abs(number) < 1e5 or not number
        else f"{float(number):.4g}"
    )
