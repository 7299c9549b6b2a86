"""Likelihoods: how data scatter around a prediction."""

from ._banded_covariance import BandedCovariance
from ._binomial import Binomial
from ._categorical import Categorical
from ._covariance import AbstractCovariance, AbstractCovarianceFactor
from ._data_sets import DataSets, checked_data, data_sets, is_noise, is_noise_function
from ._gaussian import Gaussian
from ._gaussian_process import GaussianProcess
from ._independent import AbstractIndependentLikelihood
from ._likelihood import AbstractComparison, AbstractLikelihood, DataLayout, data_layout
from ._log_normal import LogNormal
from ._poisson_likelihood import Poisson
from ._student_t import StudentT
from ._toeplitz_covariance import ToeplitzCovariance


__all__ = [
    "AbstractComparison",
    "AbstractCovariance",
    "AbstractCovarianceFactor",
    "AbstractIndependentLikelihood",
    "AbstractLikelihood",
    "BandedCovariance",
    "Binomial",
    "Categorical",
    "DataLayout",
    "DataSets",
    "Gaussian",
    "GaussianProcess",
    "LogNormal",
    "Poisson",
    "StudentT",
    "ToeplitzCovariance",
    "checked_data",
    "data_layout",
    "data_sets",
    "is_noise",
    "is_noise_function",
]
