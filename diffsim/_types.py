"""Types, and the axis names that every array annotation uses.

`body` bodies and test particles of an N-body system, `massive` those that attract,
`test_particle` those that do not; `time` output times; `run` members of a sweep;
`parameter` free parameters; `datum` data.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxtyping import ArrayLike
from typing_extensions import TypeAliasType


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # Type checkers know nothing of jaxtyping's, and that spreads to all that it is in.
    _Leaf = TypeVar("_Leaf", default=Any)
    PyTree = TypeAliasType("PyTree", Any, type_params=(_Leaf,))
else:
    from jaxtyping import PyTree as PyTree


#: What a constructor turns into a floating array: arrays, numbers, nested lists.
#: `help` shows its name and not what it stands for.
Numbers = TypeAliasType("Numbers", ArrayLike | Sequence[Any])
