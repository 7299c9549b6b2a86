"""Parameters from data: fits, error bars and forecasts for any simulation."""

from ._fisher import fisher
from ._fit import fit
from ._free import Free, Transform
from ._information import Degeneracy, Fisher
from ._levenberg_marquardt import LevenbergMarquardt, LevenbergMarquardtState, Objective
from ._noise import Gaussian
from ._outcome import Fit
from ._run import Run


__all__ = [
    "Degeneracy",
    "Fisher",
    "Fit",
    "Free",
    "Gaussian",
    "LevenbergMarquardt",
    "LevenbergMarquardtState",
    "Objective",
    "Run",
    "Transform",
    "fisher",
    "fit",
]
