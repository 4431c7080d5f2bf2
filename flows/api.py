"""The functions and classes that ``import causalveil`` offers.

    from causalveil.flows.api import run_study
    outcome = run_study("data/fertility/study.yaml", engine="direct")
    outcome.release.estimate, outcome.release.interval

The command line imports what it needs of this from where it is, since all of it takes longer than a small study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from causalveil.flows.engine.engine import DirectEngine, Watcher
from causalveil.flows.plan.study_plan import StudyPlan, plan
from causalveil.flows.run.declare import load_study
from causalveil.flows.run.finished import RunResult
from causalveil.flows.run.pooling import PooledResult, pool_sites
from causalveil.flows.run.start import begin_on_frame
from causalveil.flows.start_run import (
    ArrowTable,
    Drafted,
    EngineName,
    frame_given,
    name_of_frame,
    run_study,
    study_given,
)
from causalveil.schemas.contract import Contract, DataClass, load_contract
from causalveil.schemas.documents import painted_by, path_of, tabled_by, written_by
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.plan import Plan
from causalveil.schemas.release import (
    DirectionRelease,
    EffectRelease,
    EffectTable,
    Release,
    release_file,
)
from causalveil.schemas.sites.pooled import PooledRelease, Published, Series, load_published
from causalveil.schemas.study import Study
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.report.page import head_html, plan_html, report_html
from causalveil.tasks.report.panel import panel_text
from causalveil.tasks.report.robustness import SensitivityAnalysis, Strength, sensitivity_of, strength_like
from causalveil.tasks.report.table import frame_of
from causalveil.tasks.start.draft import slug
from causalveil.tasks.start.roles import Wishes

__all__ = [
    "DirectionRelease",
    "Drafted",
    "EffectRelease",
    "Plan",
    "PooledRelease",
    "PooledResult",
    "Release",
    "RunResult",
    "Study",
    "StudyPlan",
    "draft",
    "load_release",
    "load_study",
    "plan",
    "pool",
    "report",
    "run",
    "run_study",
]

painted_by(Release, head_html)
painted_by(PooledRelease, head_html)
for _kind in (Release, PooledRelease, Series):
    written_by(_kind, panel_text)
tabled_by(EffectTable, frame_of)
painted_by(StudyPlan, lambda study_plan: plan_html(study_plan, study_plan.specification))


def run(
    study: str | Path | Mapping[str, Any] | Drafted,
    *,
    data: ArrowTable | None = None,
    contract: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    run_id: str | None = None,
    again: bool = False,
    simulate: int | None = None,
    engine: EngineName | None = None,
    watch: Watcher = lambda _: None,
) -> RunResult:
    """Run a study: a file, or a study and a data frame with its contract.

    The same question of the same rows again costs nothing, as on the command line.

    Args:
        study: the study file, what ``draft`` returned, or with ``data`` a mapping with the keys of study.yaml.
        data: a polars, pandas or Arrow data frame of public or synthetic rows; None: the study file has its rows.
        contract: of ``data``, with the keys of dataset.yaml.
        out: folder for the release (default ``releases/<run id>`` below the working directory).
        run_id: names the run. Default: that of the first run that asked the same question of the same bytes, whose
            release is returned, free of charge.
        again: without ``run_id``, draw and charge anew, under a fresh id.
        simulate: seed for reproducible noise: throw-away ledger, not for release.
        engine: ``prefect`` or ``direct``; default: what the operator's settings say.
        watch: is told the name of each stage as it starts.

    Raises:
        ContractError: the contract is missing or wrong, or the frame's data are sensitive.
        CausalveilError: see :func:`run_study`.

    Examples:
        A study file, with seeded noise that is not for release:

        >>> import causalveil
        >>> result = causalveil.run("data/lalonde/study-regression.yaml", simulate=1, engine="direct")
        >>> result.release.units
        445
        >>> result.release.interval.lower < result.release.estimate < result.release.interval.upper
        True

        A data frame of synthetic rows, with study and contract given in Python:

        >>> import numpy, polars
        >>> random = numpy.random.default_rng(1)
        >>> age, treated = random.uniform(20, 80, 2_000), random.random(2_000) < 0.5
        >>> frame = polars.DataFrame({"age": age, "treated": treated, "score": 20 + age / 10 + 3 * treated})
        >>> frame = frame.with_row_index("person")
        >>> contract = {
        ...     "dataset": "clinic",
        ...     "data_class": "synthetic",
        ...     "unit": "person",
        ...     "columns": {
        ...         "treated": {"codes": {"control": False, "treated": True}},
        ...         "age": {"lower": 20, "upper": 80},
        ...         "score": {"lower": 0, "upper": 50},
        ...     },
        ...     "public": [],
        ...     "caps": {"sample": {"epsilon": 10, "delta": 1e-4}},
        ... }
        >>> study = {
        ...     "kind": "effect",
        ...     "name": "score-by-treatment",
        ...     "treatment": "treated",
        ...     "outcome": "score",
        ...     "covariates": ["age"],
        ...     "estimator": {"name": "regression"},
        ...     "privacy": {"epsilon": 1.0, "delta": 1e-6},
        ... }
        >>> answer = causalveil.run(study, data=frame, contract=contract, simulate=1, engine="direct")
        >>> 2 < answer.release.estimate < 4
        True
    """
    path = study_given(study, data, contract)
    return run_study(path, out=out, run_id=run_id, again=again, simulate=simulate, engine=engine, watch=watch)


def draft(
    data: ArrowTable,
    *,
    treatment: str,
    outcome: str,
    unit: str | None = None,
    data_class: Literal["public", "synthetic"] = "synthetic",
    name: str | None = None,
    epsilon: float = 1.0,
    treated: str | None = None,
    counted: str | None = None,
    event: str | None = None,
    horizon: float = 0.0,
    censored: str | None = None,
    covariates: Sequence[str] | None = None,
    without: Sequence[str] = (),
    trial: bool = False,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    missing: Mapping[str, Sequence[str]] | None = None,
    where: Sequence[str] = (),
) -> Drafted:
    """Draft contract and study from a data frame, as ``causalveil init`` does from a file.

    The rows are public or synthetic.

    Args:
        data: a polars, pandas or Arrow data frame.
        treatment: the column that says who was treated.
        outcome: a number, one of two values, or with ``event`` a time.
        unit: the column that names persons; None: each row is one.
        data_class: how the owner classes the data; of sensitive data ``causalveil init`` drafts from a file.
        name: of the dataset; None: told by a digest of rows and contract, so that other rows have their own budget.
        epsilon: what the study may spend.
        treated: which value means treated, if the values do not say so.
        counted: which of two values of the outcome is counted.
        event: the column that says what ended the times.
        horizon: until when times are compared.
        censored: which value of ``event`` means that no event was seen.
        covariates: columns to adjust for; None: all that are not in doubt.
        without: columns that are no covariates.
        trial: whether treatment was randomised.
        ranges: of numbers, as ``{"age": (0, 110)}``.
        levels: of categories, as ``{"region": ["north", "south"]}``.
        missing: values that mean a missing one, as ``{"age": ["999"]}``.
        where: whom the study is about, as ``["age >= 25"]``.

    Raises:
        StudyError: a column or a value is not there, or cannot play its part.

    Examples:
        >>> import causalveil, numpy, polars
        >>> random = numpy.random.default_rng(1)
        >>> age, treated = random.integers(20, 80, 2_000), random.random(2_000) < 0.5
        >>> score = (20 + age / 10 + 3 * treated + random.normal(0, 1, 2_000)).round(1)
        >>> frame = polars.DataFrame({"age": age, "treated": treated, "score": score})
        >>> drafted = causalveil.draft(frame, treatment="treated", outcome="score")
        >>> drafted.study["covariates"]
        ['age']
        >>> drafted.study["privacy"]["epsilon"] = 2
        >>> result = causalveil.run(drafted, simulate=1, engine="direct")
        >>> 2 < result.release.to_frame()["estimate"][0] < 4
        True
    """
    wishes = Wishes(
        name=slug(name or "data"),
        data_class=_class_of_frame(data_class),
        unit=unit or "",
        treatment=treatment,
        outcome=outcome,
        treated=treated,
        counted=counted,
        event=event,
        horizon=horizon,
        censored=censored,
        covariates=None if covariates is None else tuple(covariates),
        without=tuple(without),
        trial=trial,
        ranges=dict(ranges or {}),
        levels={column: tuple(map(str, values)) for column, values in (levels or {}).items()},
        missing={column: tuple(map(str, values)) for column, values in (missing or {}).items()},
        where=tuple(where),
        epsilon=f"{epsilon:g}",
    )
    drafted, rows = begin_on_frame(frame_given(data), wishes)
    terms: dict[str, Any] = yaml.safe_load(drafted.contract)
    if name is None:
        terms["dataset"] = name_of_frame(rows, terms)
    notes = (*drafted.assumed, *drafted.left_out, *drafted.decide)
    return Drafted(terms, yaml.safe_load(drafted.study), rows, notes)


def _class_of_frame(word: str) -> DataClass:
    if word not in ("public", "synthetic"):
        raise StudyError(
            "draft: is of public or synthetic rows; sensitive data are drafted from a file, by `causalveil init`"
        )
    return DataClass(word)


def pool(sites: str | Path, *, out: str | Path | None = None) -> PooledResult:
    """Verify the bundle of every expected site and pool them. Reads no row.

    Args:
        sites: the round's sites.yaml; the study and the folder of bundles lie where it says.
        out: folder for release.json (default ``releases/<round>`` below the working directory).

    Raises:
        StudyError: sites.yaml or the study is wrong, or another release lies in ``out``.
        BundleError: a bundle is refused; nothing was pooled.
    """
    return pool_sites(path_of(sites, "a round"), out, DirectEngine())


def load_release(path: str | Path) -> Published:
    """Read a release.json of any kind back; a run's folder stands for the one in it.

    Raises:
        StudyError: missing, not JSON, of an unknown kind, or not of its schema.

    Examples:
        >>> import causalveil
        >>> result = causalveil.run("data/lalonde/study-difference.yaml", simulate=1, engine="direct")
        >>> causalveil.load_release(result.path) == result.release
        True
    """
    return load_published(path_of(path, "a release"))


def report(
    release: str | Path | RunResult | PooledResult | Published,
    *,
    out: str | Path | None = None,
    contract: str | Path | None = None,
) -> Path:
    """Write a release as one self-contained HTML page; return the page's path.

    Args:
        release: a release, what ``run`` or ``pool`` returned, or the path of a release.json or of a run's folder.
        out: the file to write (default: report.html beside the release.json).
        contract: the owner's dataset.yaml, whose words on columns and rows the reporting guidelines then quote.

    Raises:
        StudyError: the release cannot be read, the page cannot be written, or no folder was named.
        ContractError: the contract cannot be read, or is of another dataset.

    Examples:
        >>> import causalveil
        >>> result = causalveil.run("data/lalonde/study-difference.yaml", simulate=1, engine="direct")
        >>> causalveil.report(result).name
        'report.html'
    """
    source: Path | None = None
    if isinstance(release, RunResult | PooledResult):
        source, document = release.path, release.release
    elif isinstance(release, Published):
        document = release
    else:
        source, document = release_file(path_of(release, "a release")), load_release(release)
    if out is not None:
        path = Path(out)
    elif source is not None:
        path = source.with_name("report.html")
    else:
        raise StudyError("report: name the file to write, as in report(release, out='report.html')")
    return write_whole(path, report_html(document, _contract_of(document, contract)))


def sensitivity(
    release: str | Path | RunResult | Release,
    *,
    outcome: float | None = None,
    treatment: float | None = None,
    like: str | None = None,
    times: float = 1.0,
) -> SensitivityAnalysis:
    """Say how strong an unmeasured confounder would have to be.

    Nothing is drawn and nothing charged.

    Args:
        release: a release of effects, what ``run`` returned, or the path of a release.json or of a run's folder.
        outcome: part, in [0, 1], of the outcome's variance left that a confounder explains: what could it do?
        treatment: part, in [0, 1), of treatment's variance left that it explains; both or neither.
        like: a covariate, in place of both: a confounder is compared with it.
        times: how many times as strong it is as that covariate.

    Raises:
        StudyError: it is no release of effects, or one strength is given without the other, or beyond its range, or no
            benchmark of that covariate was released.

    Examples:
        >>> import causalveil
        >>> result = causalveil.run("data/fertility/study.yaml", simulate=1, engine="direct")
        >>> 0.12 < causalveil.sensitivity(result).robustness.value < 0.15
        True
        >>> low, high = causalveil.sensitivity(result, like="age", times=2).widened
        >>> low < result.release.interval.lower < result.release.interval.upper < high < 0
        True
    """
    if isinstance(release, RunResult):
        document: Published = release.release
    else:
        document = release if isinstance(release, Release) else load_release(release)
    if not isinstance(document, EffectRelease):
        raise StudyError("sensitivity: is of effects of one run; name the release.json of such a run")
    if like is not None:
        if outcome is not None or treatment is not None:
            raise StudyError(f"sensitivity: give {option('like')}, or {option('outcome')} and {option('treatment')}")
        # Where there is no answer, a strength has nothing to move.
        return sensitivity_of(
            document, strength_like(document, like, times) if document.answers[0].robustness else None
        )
    if (outcome is None) != (treatment is None):
        both = f"{option('outcome')} and {option('treatment')}"
        raise StudyError(f"sensitivity: a strength has two parts: give both {both}, or neither")
    if outcome is None or treatment is None:
        return sensitivity_of(document)
    if not (0 <= outcome <= 1 and 0 <= treatment < 1):
        raise StudyError(
            f"sensitivity: {option('outcome')} lies between 0 and 1, {option('treatment')} from 0 to below 1"
        )
    return sensitivity_of(document, Strength(outcome, treatment, "One that explains"))


def _contract_of(document: Published, path: str | Path | None) -> Contract | None:
    if path is None:
        return None
    contract = load_contract(path_of(path, "a contract"))
    if not isinstance(document, Release) or contract.dataset != document.dataset:
        raise ContractError(f"{path}: is of dataset '{contract.dataset}', the release is not; name its contract")
    return contract
