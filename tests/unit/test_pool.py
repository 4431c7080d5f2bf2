"""Pooling against a textbook example, a plain second implementation, and the cases that privacy adds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from causalveil.schemas.errors import BundleError
from causalveil.schemas.limits import Code
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import Interval, Variance
from causalveil.schemas.sites.pooled import SCHEMA_FILE, pooled_schema
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.sites.pool import Pooled, SiteEstimate, pool

WIDE = (-1e9, 1e9)
Z = NormalDist().inv_cdf(0.975)


def site(
    estimate: float, sampling: float, noise: float = 0.0, *, name: str = "a", half: float | None = None
) -> SiteEstimate:
    half = Z * math.sqrt(sampling + noise) if half is None else half
    interval = Interval(
        lower=estimate - half,
        upper=estimate + half,
        confidence=0.95,
        covers=(),
        coverage=Coverage.normal_approximation,
        whole_range=False,
    )
    return SiteEstimate(name, estimate, Variance(sampling=sampling, noise=noise), interval)


# Thirteen trials of BCG against tuberculosis (Colditz et al., JAMA 271, 1994, table 1): cases and others among the
# vaccinated, cases and others among the controls. The example of Borenstein et al. and of R's metafor (dat.bcg).
BCG = [
    *((4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761)),
    *((180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232)),
    *((17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825)),
]


def bcg() -> list[SiteEstimate]:
    """Log risk ratios and their variances."""
    rows = []
    for cases, others, cases_control, others_control in BCG:
        n, m = cases + others, cases_control + others_control
        value = math.log(cases / n) - math.log(cases_control / m)
        rows.append(site(value, 1 / cases - 1 / n + 1 / cases_control - 1 / m))
    return rows


def test_bcg_as_published() -> None:
    """metafor's documentation, methods FE (or EE) and DL; Q, I2 and tau2 as printed there."""
    found = pool(bcg(), 0.95, WIDE)
    assert found.fixed.estimate == pytest.approx(-0.4303, abs=5e-5)
    assert found.fixed.standard_error == pytest.approx(0.0405, abs=5e-5)
    assert (found.fixed.interval.lower, found.fixed.interval.upper) == pytest.approx((-0.5097, -0.3509), abs=5e-5)
    assert found.heterogeneity.q == pytest.approx(152.2330, abs=5e-5)
    assert found.heterogeneity.tau2 == pytest.approx(0.3088, abs=5e-5)
    assert found.heterogeneity.i2 == pytest.approx(0.9212, abs=5e-5)
    assert found.random.estimate == pytest.approx(-0.7141, abs=5e-5)
    # Under DerSimonian-Laird's own normal interval the standard error is 0.1787; Hartung-Knapp's is scaled by root q.
    plain = second_implementation(bcg())
    assert plain["dl_error"] == pytest.approx(0.1787, abs=5e-5)
    assert found.random.standard_error == pytest.approx(plain["random_error"], rel=1e-12)


def second_implementation(sites: list[SiteEstimate]) -> dict[str, float]:
    """The formulas one after the other, in plain Python, where intervals are 1.96 standard errors."""
    k = len(sites)
    y = [s.estimate for s in sites]
    v = [s.variance.sampling + s.variance.noise for s in sites]
    w = [1 / x for x in v]
    fixed = sum(a * b for a, b in zip(w, y, strict=True)) / sum(w)
    q = sum(a * (b - fixed) ** 2 for a, b in zip(w, y, strict=True))
    c = sum(w) - sum(a * a for a in w) / sum(w)
    tau2 = max(0.0, (q - (k - 1)) / c)
    r = [1 / (x + tau2) for x in v]
    mean = sum(a * b for a, b in zip(r, y, strict=True)) / sum(r)
    hk = sum(a * (b - mean) ** 2 for a, b in zip(r, y, strict=True)) / (k - 1)
    random_error = math.sqrt(max(1.0, hk) / sum(r))
    t = stats.t.ppf(0.975, k - 1)
    return {
        "fixed": fixed,
        "fixed_error": math.sqrt(1 / sum(w)),
        "q": q,
        "tau2": tau2,
        "i2": max(0.0, (q - (k - 1)) / q) if q > 0 else 0.0,
        "p": float(stats.chi2.sf(q, k - 1)),
        "random": mean,
        "dl_error": math.sqrt(1 / sum(r)),
        "random_error": random_error,
        "random_lower": mean - t * random_error,
        "random_upper": mean + t * random_error,
    }


sites = st.lists(
    st.builds(
        site,
        st.floats(-50, 50),
        st.floats(1e-3, 100),
        st.floats(0, 100),
    ),
    min_size=2,
    max_size=8,
)


@given(sites)
def test_agrees_with_the_second_implementation(listed: list[SiteEstimate]) -> None:
    found, plain = pool(listed, 0.95, WIDE), second_implementation(listed)
    apart = found.heterogeneity
    # Q is a sum of squares of differences: what cancels in it is measured by the estimates' own size.
    close = {"rel": 1e-9, "abs": 1e-9}
    assert found.fixed.estimate == pytest.approx(plain["fixed"], **close)
    assert found.fixed.standard_error == pytest.approx(plain["fixed_error"], **close)
    assert (apart.q, apart.tau2, apart.p_value) == pytest.approx((plain["q"], plain["tau2"], plain["p"]), **close)
    assert apart.i2 == pytest.approx(plain["i2"], rel=1e-6, abs=1e-6)
    assert found.random.estimate == pytest.approx(plain["random"], **close)
    assert found.random.interval.lower == pytest.approx(plain["random_lower"], **close)
    assert found.random.interval.upper == pytest.approx(plain["random_upper"], **close)
    assert sum(found.weights_fixed) == pytest.approx(1)
    assert sum(found.weights_random) == pytest.approx(1)


@given(sites)
def test_leaving_one_out_is_pooling_the_others(listed: list[SiteEstimate]) -> None:
    for position, row in enumerate(pool(listed, 0.95, WIDE).leave_one_out):
        rest = [*listed[:position], *listed[position + 1 :]]
        if len(rest) == 1:
            assert row.random is None
            assert row.fixed.estimate == pytest.approx(rest[0].estimate)
            assert row.fixed.interval.upper == pytest.approx(rest[0].interval.upper)
        else:
            again = pool(rest, 0.95, WIDE)
            assert (row.fixed, row.random) == (again.fixed, again.random)


@given(sites)
def test_intervals_hold_what_they_must(listed: list[SiteEstimate]) -> None:
    found = pool(listed, 0.95, WIDE)
    for part in (found.fixed, found.random):
        assert part.interval.lower <= part.estimate <= part.interval.upper
    if found.heterogeneity.tau2 == 0:
        width = found.random.interval.upper - found.random.interval.lower
        assert width >= found.fixed.interval.upper - found.fixed.interval.lower, "agreement by chance narrows nothing"


def test_smaller_epsilon_weighs_less_and_is_no_heterogeneity() -> None:
    """Noise of variance 4 at two sites out of four: their distance is expected, so tau2 stays 0."""
    listed = [site(1.0, 0.1), site(1.2, 0.1), site(3.0, 0.1, 4.0), site(-1.0, 0.1, 4.0)]
    found = pool(listed, 0.95, WIDE)
    assert found.heterogeneity.tau2 == 0
    assert found.weights_fixed[2] / found.weights_fixed[0] == pytest.approx(0.1 / 4.1)
    deaf = pool([site(s.estimate, s.variance.sampling) for s in listed], 0.95, WIDE)
    assert deaf.heterogeneity.tau2 > 1, "who forgets the noise takes it for a difference between sites"


def test_a_noisy_variance_does_not_narrow_the_interval() -> None:
    """Released 0, though the site's own interval says that it may be more: the interval of the pool says so too."""
    honest = [site(0.0, 0.0, 0.01, half=2.0), site(0.0, 1.0, 0.01)]
    found = pool(honest, 0.95, WIDE)
    weight = found.weights_fixed[0]
    assert weight > 0.98
    assert found.fixed.interval.upper >= weight * 2.0
    assert found.random.standard_error >= found.fixed.standard_error


@pytest.mark.parametrize("mixing", [1.0, 2.0, 5.5])
@pytest.mark.parametrize("confidence", [0.8, 0.91, 0.95, 0.99])
@pytest.mark.parametrize("scales", [(1, 1), (1, 0.3), (1, 1, 1, 1)])
def test_adding_half_widths_in_squares_is_safe(mixing: float, confidence: float, scales: tuple[float, ...]) -> None:
    """Sums of independent L2-Laplace noises: the exact tail at our half-width, by inversion of the characteristic
    function (1 + s^2 t^2/2a)^-a of a noise of deviation s, is never above what was promised."""
    t = (np.arange(200_000) + 0.5) * 0.01
    alone = Noise(1 / math.sqrt(2 * mixing), mixing).quantile((1 - confidence) / 2)
    half = math.sqrt(sum(s * s for s in scales)) * max(alone, NormalDist().inv_cdf((1 + confidence) / 2))
    characteristic = np.prod([(1 + (s * t) ** 2 / (2 * mixing)) ** -mixing for s in scales], axis=0)
    covered = 2 / math.pi * 0.01 * float(np.sum(np.sin(half * t) / t * characteristic))
    assert covered >= confidence - 1e-5


def test_a_drowned_site_neither_helps_nor_hurts() -> None:
    """An interval that is the whole range, and a noise variance of at least its square: next to no weight."""
    clear = [site(-2.0, 0.01, 0.01), site(-2.1, 0.01, 0.02)]
    drowned = site(25.0, 0.0, 30.0**2, half=55.0)
    found = pool([*clear, drowned], 0.95, (-30, 30))
    assert found.weights_fixed[2] < 1e-4
    assert found.fixed.estimate == pytest.approx(pool(clear, 0.95, (-30, 30)).fixed.estimate, abs=0.01)
    assert not found.fixed.interval.whole_range


def test_sites_that_all_drowned_leave_the_declared_range() -> None:
    found = pool([site(25.0, 0.0, 900.0, half=55.0), site(-3.0, 0.0, 900.0, half=33.0)], 0.95, (-30, 30))
    for part in (found.fixed, found.random):
        assert part.interval.whole_range
        assert (part.interval.lower, part.interval.upper) == (-30, 30)


def biased(estimate: float, bias: float, deviation: float = 1.0) -> SiteEstimate:
    """A site whose interval allows for a bias."""
    half = Noise(0.0).critical(0.05, bias, deviation**2)
    found = site(estimate, deviation**2, half=half)
    return replace(found, interval=found.interval.model_copy(update={"bias": bias}))


@pytest.mark.parametrize("bias", [0.1, 1.0, 20.0])
def test_biases_that_sites_allow_for_add_up_and_do_not_average_out(bias: float) -> None:
    """Sixteen sites: a quarter of one site's deviation, all of its bias; so wide as one such site would be."""
    found = pool([biased(2.0, bias) for _ in range(16)], 0.95, WIDE)
    assert found.fixed.interval.bias == pytest.approx(bias)
    assert found.fixed.standard_error == pytest.approx(1 / 4)
    assert found.fixed.interval.upper - 2 == pytest.approx(Noise(0.0).critical(0.05, bias, 1 / 16))
    assert found.random.interval.upper >= found.fixed.interval.upper
    assert found.random.interval.bias == pytest.approx(bias)
    for part in (found.fixed, found.random):
        assert part.interval.covers[-1].code is Code.confounding_of_prior


def test_a_site_that_allows_for_a_bias_keeps_its_interval_beside_one_that_says_nothing() -> None:
    found = pool([biased(2.0, 0.7), site(5.0, 1e12)], 0.95, WIDE)
    assert found.fixed.interval.upper - found.fixed.estimate == pytest.approx(
        Noise(0.0).critical(0.05, 0.7, 1.0), rel=1e-5
    )


def test_a_cut_interval_keeps_its_uncut_side() -> None:
    """The range cut one side of a site's interval to nothing; the other side still says how wide it is."""
    cut = SiteEstimate(
        "a",
        30.0,
        Variance(sampling=1.0, noise=0.0),
        Interval(
            lower=20.0,
            upper=30.0,
            confidence=0.95,
            covers=(),
            coverage=Coverage.normal_approximation,
            whole_range=False,
        ),
    )
    found = pool([cut, site(29.0, 1.0)], 0.95, (-30, 30))
    assert found.fixed.standard_error == pytest.approx(math.sqrt((10 / Z) ** 2 / 4 + 1 / 4))


@pytest.mark.parametrize("listed", [[], [site(1.0, 1.0)], [site(1.0, 1.0), site(1.0, 0.0, 0.0)]])
def test_what_cannot_be_pooled(listed: list[SiteEstimate]) -> None:
    with pytest.raises(BundleError, match=r"two sites|variance of zero"):
        pool(listed, 0.95, WIDE)


def test_confidence_and_order() -> None:
    listed = [site(1.0, 1.0, name="a"), site(2.0, 0.5, name="b"), site(4.0, 2.0, name="c")]
    narrow, wide = (pool(listed, confidence, WIDE) for confidence in (0.95, 0.99))
    for found, other in ((narrow.fixed, wide.fixed), (narrow.random, wide.random)):
        assert found.interval.upper < other.interval.upper
    backwards: Pooled = pool(listed[::-1], 0.95, WIDE)
    assert backwards.fixed.estimate == pytest.approx(narrow.fixed.estimate)
    assert [row.site for row in narrow.leave_one_out] == ["a", "b", "c"]


def test_exported_schema_is_current() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == pooled_schema()
