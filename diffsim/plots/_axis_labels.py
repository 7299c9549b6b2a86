"""Labels of axes, color bars and times, where the user's own stand before ours."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._validation import instance, one_of


#: Labels of fields whose name is none.
_WRITTEN = {
    "u_t": "∂u/∂t",
    "psi_real": "Re ψ",
    "psi_imag": "Im ψ",
    "probability_density": "|ψ|²",
}


class Labels:
    """Labels by name; those of the user, as "temperature [K]", replace ours."""

    def __init__(self, labels: Any, drawn: Sequence[str]):
        example = f"{{{drawn[-1]!r}: 'its label'}}"
        self._given = dict(instance("labels", labels or {}, Mapping, example))
        for name in self._given:
            one_of("a name in labels", name, drawn)

    def __getitem__(self, name: str) -> str:
        if name in self._given:
            return self._given[name]
        return _WRITTEN.get(name, "t" if name == "time" else name.replace("_", " "))

    def value(self, name: str, number: Any) -> str:
        """A place or a time in words: "t = 2.5 s" where its label is "t [s]"."""
        label, unit = self[name], ""
        if match := re.fullmatch(r"(.*?)\s*\[(.*)\]", label):
            label, unit = match[1], f" {match[2]}"
        return f"{label} = {plain_number(number)}{unit}"


def plain_number(number: Any) -> str:
    """Up to four digits, as a person writes them."""
    rounded = float(f"{float(number):.4g}")
    if number and not 1e-3 <= abs(number) < 1e5:
        return f"{rounded:.4g}"
    return np.format_float_positional(rounded, trim="-", min_digits=0)
