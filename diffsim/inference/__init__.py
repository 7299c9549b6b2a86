"""Parameters from data: fits, error bars and forecasts for any simulation."""

from ._fisher import (
    Dali,
    Degeneracy,
    Fisher,
    FisherModes,
    FisherOperator,
    fisher,
    fisher_operator,
)
from ._fit import fit
from ._fit_loop import FitOptions
from ._fit_result import Fit, FittedData, LocalOptimum, Propagated
from ._free import Free
from ._levenberg_marquardt import LevenbergMarquardt
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
from ._log_density import LogDensity, log_density
from ._per_datum_gradients import per_datum_gradients
from ._priors import Prior
from ._profile import Contour, Profile


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
    "LocalOptimum",
    "LogDensity",
    "LogNormal",
    "Poisson",
    "Prior",
    "Profile",
    "Propagated",
    "StudentT",
    "ToeplitzCovariance",
    "fisher",
    "fisher_operator",
    "fit",
    "log_density",
    "per_datum_gradients",
]
