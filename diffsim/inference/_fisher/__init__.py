"""Fisher information: what an experiment can tell about parameters."""

from ._dali import Dali
from ._fisher_forecast import fisher, fisher_operator
from ._fisher_information import Degeneracy, Fisher
from ._fisher_modes import FisherModes
from ._fisher_operator import FisherOperator
from ._information import observed_information


__all__ = [
    "Dali",
    "Degeneracy",
    "Fisher",
    "FisherModes",
    "FisherOperator",
    "fisher",
    "fisher_operator",
    "observed_information",
]
