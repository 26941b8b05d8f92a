"""OpenDP's own parts, by name, for the rooms above, which do not import it."""

from opendp.measurements import make_user_measurement, then_gaussian, then_laplace
from opendp.measures import approximate, max_divergence, renyi_divergence, zero_concentrated_divergence
from opendp.metrics import l1_distance, l2_distance, symmetric_distance
from opendp.mod import Domain, Measure, Measurement, Metric, OpenDPException, Transformation, enable_features
from opendp.transformations import make_user_transformation

__all__ = [
    "Domain",
    "Measure",
    "Measurement",
    "Metric",
    "OpenDPException",
    "Transformation",
    "approximate",
    "enable_features",
    "l1_distance",
    "l2_distance",
    "make_user_measurement",
    "make_user_transformation",
    "max_divergence",
    "renyi_divergence",
    "symmetric_distance",
    "then_gaussian",
    "then_laplace",
    "zero_concentrated_divergence",
]
