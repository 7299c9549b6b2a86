"""Parameters from data: fits, error bars and forecasts for any simulation."""

from ._contour import Contour
from ._dali import Dali
from ._degeneracy import Degeneracy
from ._fisher_forecast import fisher
from ._fisher_information import Fisher
from ._fisher_modes import FisherModes
from ._fisher_operator import FisherOperator
from ._fit import fit
from ._fit_options import FitOptions
from ._fit_result import Fit
from ._fitted_data import FittedData
from ._free import Free, Transform
from ._levenberg_marquardt import LevenbergMarquardt
from ._levenberg_marquardt_state import LevenbergMarquardtState, Objective
from ._likelihoods import (
    AbstractIndependentLikelihood,
    AbstractLikelihood,
    BandedCovariance,
    Binomial,
    Categorical,
    Gaussian,
    GaussianProcess,
    LogNormal,
    Poisson,
    StudentT,
    ToeplitzCovariance,
)
from ._local_optima import LocalOptimum
from ._log_density import LogDensity, log_density
from ._per_datum_gradients import per_datum_gradients
from ._priors import Prior
from ._profile import Profile
from ._propagate import Propagated


__all__ = [
    "AbstractIndependentLikelihood",
    "AbstractLikelihood",
    "BandedCovariance",
    "Binomial",
    "Categorical",
    "Contour",
    "Dali",
    "Degeneracy",
    "Fisher",
    "FisherModes",
    "FisherOperator",
    "Fit",
    "FitOptions",
    "FittedData",
    "Free",
    "Gaussian",
    "GaussianProcess",
    "LevenbergMarquardt",
    "LevenbergMarquardtState",
    "LocalOptimum",
    "LogDensity",
    "LogNormal",
    "Objective",
    "Poisson",
    "Prior",
    "Profile",
    "Propagated",
    "StudentT",
    "ToeplitzCovariance",
    "Transform",
    "fisher",
    "fit",
    "log_density",
    "per_datum_gradients",
]
