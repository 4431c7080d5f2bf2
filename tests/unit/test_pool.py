"""sites.yaml, and what a coordinator remembers of rounds."""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from causalveil.schemas.errors import BundleError, StudyError
from causalveil.schemas.limits import Code
from causalveil.schemas.release import Interval, Variance
from causalveil.schemas.sites.round import instant_text, load_sites, parse_instant
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.accept import settle
from causalveil.tasks.sites.pool import Pooled, SiteEstimate, pool
from tests.studies import merge


def nothing() -> None:
    """Publish nothing."""


KEYS = [f"ed25519:{digit * 64}" for digit in "23456789abcde"]
TERMS: dict[str, Any] = {
    "kind": "sites",
    "round": "spring",
    "study": "study.yaml",
    "opened": "2026-03-01",
    "units_disjoint": True,
    "sites": {
        "north": {"key": KEYS[0], "expires": "2027-01-01"},
        "coast": {"key": KEYS[1], "expires": "2027-01-01T12:00:00+02:00", "privacy": {"epsilon": 0.5}},
    },
}


def write(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "sites.yaml"
    path.write_text(yaml.safe_dump(merge(TERMS, changes), sort_keys=False))
    return path


def test_terms_are_read(tmp_path: Path) -> None:
    terms = load_sites(write(tmp_path, {}))
    assert terms.opened == datetime(2026, 3, 1, tzinfo=UTC)
    assert terms.sites["coast"].expires == datetime(2027, 1, 1, 10, tzinfo=UTC)
    assert terms.sites["coast"].privacy is not None
    assert terms.sites["coast"].privacy.delta is None, "what was not agreed is the study's"
    assert (terms.model, terms.bundles, terms.closes) == ("random", "bundles", None)
    assert terms.site_of(KEYS[1]) == "coast"
    assert terms.site_of(KEYS[2]) is None


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"units_disjoint": False}, "must be true"),
    ({"units_disjoint": ...}, "missing key 'units_disjoint'"),
    ({"opened": "2026-03-01T12:00:00"}, "time zone"),
    ({"opened": 20260301}, "must be text"),
    ({"opened": "spring"}, "no date or time"),
    ({"closes": "2026-02-01"}, "after 'opened'"),
    ({"sites": {"coast": {"key": KEYS[0]}}}, "two sites have one key"),
    ({"sites": {"coast": ...}}, "at least 2"),
    ({"sites": {"north": {"key": "ed25519:00"}}}, "sites.north.key"),
    ({"sites": {"north": {"keys": KEYS[3]}}}, "did you mean 'key'"),
    ({"sites": {"../north": {"key": KEYS[3], "expires": "2027-01-01"}}}, "sites"),
    ({"round": "a/b"}, "'round'"),
    ({"model": "bayes"}, "'model'"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_wrong_terms_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as refused:
        load_sites(write(tmp_path, changes))
    assert message in str(refused.value)
    assert refused.value.exit_code == 2


def test_instants_have_one_spelling() -> None:
    for text in ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.250000Z"):
        assert instant_text(parse_instant(text)) == text
    assert instant_text(parse_instant("2026-03-01T12:00:00+02:00")) == "2026-03-01T10:00:00Z"


def test_a_round_is_settled_by_its_first_bundles() -> None:
    settle(open_ledger(), "spring", {"north": "1", "coast": "2"}, nothing)
    settle(open_ledger(), "spring", {"north": "1", "coast": "2"}, nothing)
    settle(open_ledger(), "summer", {"north": "3"}, nothing)
    with pytest.raises(BundleError, match=r"'north'.*'coast'.*new round"):
        settle(open_ledger(), "spring", {"north": "3", "coast": "4"}, nothing)
    with pytest.raises(BundleError, match="'coast'"):
        settle(open_ledger(), "spring", {"north": "1", "coast": "1"}, nothing)
    settle(open_ledger(), "spring", {"north": "1", "valley": "5"}, nothing)
    with pytest.raises(BundleError, match="'coast'"):
        settle(open_ledger(), "spring", {"coast": "3"}, nothing)


def test_of_many_coordinators_at_once_one_settles_the_round() -> None:
    def attempt(number: int) -> bool:
        try:
            settle(open_ledger(), "rush", {"north": str(number)}, nothing)
        except BundleError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(32))) == 1


def test_a_lost_folder_does_not_let_a_site_answer_twice() -> None:
    settle(open_ledger(), "spring", {"north": "1", "coast": "2"}, nothing)
    shutil.rmtree(home() / "rounds", ignore_errors=True)
    with pytest.raises(BundleError, match=r"'north'.*a new answer needs a new round"):
        settle(open_ledger(), "spring", {"north": "3"}, nothing)
    open_ledger().verify()


def test_what_is_published_is_whole_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    assert write_whole(path, "a", taken="no").read_text() == "a"
    write_whole(path, "a", taken="no")
    with pytest.raises(StudyError, match=r"file\.json: another lies there"):
        write_whole(path, "b", taken="another lies there")
    assert path.read_text() == "a"
    write_whole(path, "b")
    assert [part.name for part in path.parent.iterdir()] == ["file.json"]
    with pytest.raises(StudyError, match=r"cannot be written.*; mend it"):
        write_whole(path / "below", "c", failed="mend it")


# Pooling against a textbook example, a plain second implementation, and the cases that privacy adds.
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
