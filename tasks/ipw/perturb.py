"""The one draw of noise on the estimation units: on all sums of ``weigh`` jointly."""

from __future__ import annotations

import numpy as np

from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Level, Scope
from causalveil.schemas.study import Variant
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.ipw.weights import SUMS, private_entries, sensitivity
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, GaussianClassic, Mechanism, Slot, vector_mechanism

SLOT = Slot(name="effect", scope=Scope.estimation)
LABEL_SLOT = Slot(name="effect", scope=Scope.all)


def slot(study: IpwStudy) -> Slot:
    """Return the draw's slot: at label level every unit's outcome is in the sums."""
    return LABEL_SLOT if study.privacy.level is Level.label else SLOT


def mechanism(study: IpwStudy, sizes: Sizes | None) -> Mechanism | None:
    """Return the mechanism that releases the sums; None at training_units level.

    At that level the estimation half is unprotected.

    The paper's noise on its estimate (Lee et al. 2019a, section 3.2: sensitivity (2C/n) max weight) is this
    mechanism at sensitivity 2 in units of C max weight, since the square beside it costs nothing.
    """
    if study.privacy.level is Level.training_units:
        return None
    bound = sensitivity(study, sizes)
    if study.estimator.variant is Variant.paper:
        return GaussianClassic(sensitivity=bound, cost=study.privacy.cost)
    return vector_mechanism(bound, study.privacy.cost)


def release(study: IpwStudy, sizes: Sizes, sums: FloatArray, budget: Budget) -> FloatArray:
    """The sums with noise on every private entry; public entries (label level) pass through exactly.

    Args:
        study: the study.
        sizes: its sizes.
        sums: exact sums, shape (numbers,), in the order of ``weigh.statistic_names``.
        budget: where noise is drawn and charged.
    """
    release_by = mechanism(study, sizes)
    if release_by is None:
        return sums
    entries = private_entries(study)
    released = np.array(sums, dtype=np.float64)
    released[entries] = release_by.release(released[entries], slot(study), budget)
    return released


def perturb_stage(study: IpwStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> FloatArray:
    """Release the sums that ``weigh`` left; shape as of :func:`release`."""
    return release(study, sizes, enclave.load(SUMS), budget)
