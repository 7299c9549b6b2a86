"""Types, and the axis names that every array annotation uses.

`body` bodies and test particles of an N-body system, `massive` those that attract,
`test_particle` those that do not; `time` output times; `run` members of a sweep;
`parameter` free parameters; `datum` data.
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import ArrayLike
from typing_extensions import TypeAliasType


#: What a constructor turns into a floating array: arrays, numbers, nested lists.
#: `help` shows its name and not what it stands for.
Numbers = TypeAliasType("Numbers", ArrayLike | Sequence[Any])
