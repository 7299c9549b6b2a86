"""Tables of calls and the words of the sentence that each raises or warns with."""

import contextlib
from functools import partial

import jaxtyping
import numpy as np
import pytest


@contextlib.contextmanager
def as_users_have_it():
    """Without checks of annotations, which would come before the sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        yield


def raises(error, call, words):
    with as_users_have_it(), pytest.raises(error, match=words):
        call()


def warns(call, words):
    with as_users_have_it(), pytest.warns(UserWarning, match=words):
        call()


def pairs(*rows):
    """Rows from lines: a call, its words, a call, its words."""
    return list(zip(rows[::2], rows[1::2], strict=True))


def options(call, *given, **known):
    """`call` as a function of a dictionary of options, before the `known` ones."""
    return lambda changed: call(*given, **(known | changed))


def of(call, *rows):
    """Rows of one call: what it is given, and the words."""
    return [(partial(call, given), words) for given, words in rows]


def table(*groups):
    """Parametrizes `call` and `words`; rows without a name have that of their words."""
    rows = []
    for group in groups:
        named = isinstance(group, dict)
        for name, row in group.items() if named else ((row[1], row) for row in group):
            rows.append(pytest.param(*row, id=name.replace("\\", "")))
    return pytest.mark.parametrize(("call", "words"), rows)


class Quantity(np.ndarray):
    """As Astropy has it: an array that knows its unit, and loses it silently."""

    unit = "km"

    def to_value(self, unit):
        return np.asarray(self)
