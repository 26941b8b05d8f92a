"""OpenDP by name, without its prelude, which imports all libraries that its extras know."""

import opendp.combinators as c
import opendp.measurements as m
import opendp.transformations as t
from opendp.context import Context, Query, domain_of, loss_of, register, unit_of
from opendp.domains import atom_domain, user_domain, vector_domain, with_margin
from opendp.measurements import make_user_measurement, then_gaussian, then_laplace
from opendp.measures import (
    approximate,
    max_divergence,
    new_privacy_profile,
    renyi_divergence,
    smoothed_max_divergence,
    zero_concentrated_divergence,
)
from opendp.metrics import (
    absolute_distance,
    change_one_distance,
    change_one_id_distance,
    l1_distance,
    l2_distance,
    linf_distance,
    symmetric_distance,
    symmetric_id_distance,
    user_distance,
)
from opendp.mod import (
    Domain,
    Measure,
    Measurement,
    Metric,
    OpenDPException,
    Queryable,
    Transformation,
    enable_features,
)
from opendp.transformations import make_user_transformation

__all__ = [
    "Context",
    "Domain",
    "Measure",
    "Measurement",
    "Metric",
    "OpenDPException",
    "Query",
    "Queryable",
    "Transformation",
    "absolute_distance",
    "approximate",
    "atom_domain",
    "c",
    "change_one_distance",
    "change_one_id_distance",
    "domain_of",
    "enable_features",
    "l1_distance",
    "l2_distance",
    "linf_distance",
    "loss_of",
    "m",
    "make_user_measurement",
    "make_user_transformation",
    "max_divergence",
    "new_privacy_profile",
    "register",
    "renyi_divergence",
    "smoothed_max_divergence",
    "symmetric_distance",
    "symmetric_id_distance",
    "t",
    "then_gaussian",
    "then_laplace",
    "unit_of",
    "user_distance",
    "user_domain",
    "vector_domain",
    "with_margin",
    "zero_concentrated_divergence",
]
