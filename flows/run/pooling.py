"""Pooled answers from many sites, or from the released blocks of a series.

No row is read here and no noise drawn.

Every bundle of a site is verified and the round settled first. This is the same on every engine; ``flows/deployed.py``
has the Prefect flows around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from causalveil.flows.engine.engine import Engine, Task
from causalveil.flows.run.declare import Loaded, load
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import EffectStudyFile, load_study_file
from causalveil.schemas.contradictions import contradictions_of_pooled, contradictions_of_series
from causalveil.schemas.documents import parse_json
from causalveil.schemas.errors import (
    BundleError,
    ReleaseContradicted,
    ReleaseHeld,
    RunConflict,
    StudyError,
    in_own_words,
)
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.hints import option
from causalveil.schemas.release import RELEASE_FILE, EffectRelease, load_release_text
from causalveil.schemas.sites.pooled import PooledRelease, Series, pooled_text
from causalveil.schemas.sites.round import ROUND_FILE, AgreedTerms, PooledBy, SignedTerms, load_sites
from causalveil.schemas.study import SLUG, Study
from causalveil.tasks.data.partitions import list_partitions
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.page import series_html
from causalveil.tasks.report.panel import panel_text
from causalveil.tasks.sites.accept import Accepted, accept, differences, settle, study_of_site
from causalveil.tasks.sites.bundle import answers, make_bundle, public_key, read_bundle
from causalveil.tasks.sites.pool import Asked
from causalveil.tasks.sites.pooled_release import pooled_release
from causalveil.tasks.sites.series import series_of
from causalveil.tasks.sites.terms import agreed_terms, check_answerable, keep_answer, read_terms, sign_terms, terms_text

BEYOND_FLOATS = (
    "nothing was pooled: the sites' numbers are too large or too small to be computed with; look at each bundle: "
    "causalveil bundle show FILE"
)


@dataclass(frozen=True)
class PooledResult:
    """The result of a coordinator's run."""

    release: PooledRelease
    path: Path

    def __repr__(self) -> str:
        """Return one line: answer, cost and file."""
        return f"<PooledResult {self.release.brief()}, {self.path}>"

    def __str__(self) -> str:
        """Return the panel that pooling ends with, as plain text."""
        return f"{panel_text(self.release)}\nRelease: {self.path}"

    def _repr_html_(self) -> str | None:
        """In a notebook a result is shown as its release."""
        return self.release._repr_html_()


def load_round(path: Path) -> tuple[AgreedTerms, Asked, Path]:
    """Return the terms of a round, the study that travels, and the folder of the bundles.

    Raises:
        StudyError: one of the files is wrong, or the study is not of an effect.
        BundleError: the terms of the round before are no signed terms, or not of this study.
    """
    terms = load_sites(path)
    # No contract is at hand where bundles are pooled: a study that travels declares every range and level itself.
    file = path.parent / terms.study
    study = resolve(load_study_file(file), None, str(file))
    if not isinstance(study, Asked):
        raise StudyError(f"{path}: study '{study.name}' is of kind '{study.kind}'; only effects are pooled")
    unadjusted = isinstance(study, SurvivalStudy) and study.asks_one and not study.covariates and not study.where
    if terms.pooled_by is PooledBy.cells and not unadjusted:
        raise StudyError(
            f"{path}: 'pooled_by: cells' is for one study of times by 'survival' without 'covariates' and 'where'; "
            "write 'pooled_by: effects', which pools the same bundles"
        )
    before = None if terms.follows is None else read_terms(path.parent / terms.follows)
    return agreed_terms(terms, study, before), study, path.parent / terms.bundles


def open_round(path: Path, out: Path | None) -> tuple[SignedTerms, Path]:
    """Sign the terms of a round and write them as round.json, which every site gets.

    Args:
        path: sites.yaml.
        out: the file (default ``round.json`` beside it).

    Raises:
        StudyError: sites.yaml or the study is wrong, or signed terms of another kind lie there.
        BundleError: the terms of the round before are no signed terms, or not of this study.
        CausalveilError: the coordinator's key cannot be used.
    """
    terms, study, _ = load_round(path)
    for site in terms.sites.values():
        study_of_site(study, site)
    signed, file = sign_terms(terms), out or path.with_name(ROUND_FILE)
    taken = (
        "other terms lie there, and sites may have answered them; to change them, write 'follows: "
        f"{file.name}' into sites.yaml, which makes a new round, and choose another {option('out')}"
    )
    return signed, write_whole(file, terms_text(signed), taken=taken)


def verify_bundles(terms: AgreedTerms, study: Asked, folder: Path) -> tuple[Accepted, ...]:
    """Accept every expected site's bundle, or none."""
    return accept(terms, study, folder, datetime.now(UTC))


def pool_accepted(terms: AgreedTerms, study: Asked, accepted: tuple[Accepted, ...]) -> PooledRelease:
    """Pool accepted bundles.

    Raises:
        BundleError: the bundles cannot be pooled, as numbers in them are too large or too small together.
    """
    with in_own_words(lambda _: BundleError(BEYOND_FLOATS), ArithmeticError, ValueError):
        release = pooled_release(terms, study, accepted)
    if problems := list(contradictions_of_pooled(release)):
        raise ReleaseContradicted(f"nothing was pooled: the release contradicts itself: {'; '.join(problems[:8])}")
    return release


def pool_sites(path: Path, out: str | Path | None, engine: Engine) -> PooledResult:
    """Pool the round that a sites file describes.

    The round is settled by its pooled document alone: a refusal before it costs nothing.

    Args:
        path: sites.yaml; the study and the folder of bundles lie where it says, relative to it.
        out: folder for release.json (default ``releases/<round>`` below the working directory).
        engine: what runs the two stages.

    Raises:
        StudyError: sites.yaml or the study is wrong, or another release lies in ``out``.
        BundleError: a bundle is refused; nothing was pooled.
    """
    terms, study, folder = load_round(path)
    accepted = engine(Task("verify", lambda: verify_bundles(terms, study, folder)))
    release = engine(Task("pool", lambda: pool_accepted(terms, study, accepted), reads=("verify",)))
    target = Path(out) if out is not None else Path("releases") / terms.round
    path_of_release = target / RELEASE_FILE

    def publish() -> None:
        write_whole(
            path_of_release, pooled_text(release), taken=f"another release lies there; choose another {option('out')}"
        )

    settle(open_ledger(), terms.round, {item.site: item.digest for item in accepted}, publish)
    return PooledResult(release, path_of_release)


def check_signer(
    site: str | None, round_: Path | None, *, simulated: bool = False, study: Path | None = None
) -> SignedTerms:
    """Check before any budget is spent that a run can leave a bundle that can be pooled.

    Args:
        site: this site's name.
        round_: the file of the coordinator's signed terms.
        simulated: whether the run is a simulation.
        study: the study file that the run is of.

    Returns:
        The terms.

    Raises:
        StudyError: one of the two is missing, or is none; the run is a simulation; or the study cannot be pooled.
        BundleError: these are no signed terms, or they do not expect this site, its key or this study.
        CausalveilError: this site has no key to sign with.
    """
    if site is None or round_ is None:
        both = f"{option('site')}, this site's name, and {option('round')}, the coordinator's round.json"
        raise StudyError(f"a bundle needs both: {both}")
    if simulated:
        way = f"drop {option('simulate')}, or {option('site')} and {option('round')}"
        raise StudyError(f"a simulation is not for release and leaves no bundle; {way}")
    if not SLUG.fullmatch(site):
        raise StudyError(f"{option('site')}: letters, digits, '.', '-' or '_', beginning with a letter or digit")
    public_key()
    terms = read_terms(round_)
    if study is not None:
        check_answerable(terms, site, check_travels(study).specification(), datetime.now(UTC))
    return terms


def check_travels(path: Path, *, at_a_site: bool = True) -> Study:
    """Return the study as it travels: its answers can be pooled where no contract is at hand.

    Args:
        path: of the study file.
        at_a_site: a contract lies beside the data, with which a study of times is compared.

    Raises:
        StudyError: it is of a kind that is not pooled; or leaves a range or levels to contracts; or is of times, and
            says something else of them than this site's contract.
    """
    study_file = load_study_file(path)
    if not isinstance(study_file, EffectStudyFile):
        way = f"drop {option('site')} and {option('round')}"
        raise StudyError(f"{path}: only effects are pooled, and this asks for a direction; {way}")
    # A coordinator has no contract, whatever the kind.
    travelling = resolve(study_file, None, f"{path}: as it travels over sites")
    if not at_a_site or not study_file.of_times:
        return travelling
    keys = differences(travelling.specification(), load(path).study.specification())
    # A file of one outcome may have the short key.
    if apart := sorted(key if study_file.outcomes else key.replace("outcomes.1", "outcome") for key in keys):
        raise StudyError(
            f"{path}: contracts of sites would complete these keys differently: {', '.join(apart)}; write these into "
            "the study as this site's contract has them"
        )
    return travelling


def leave_bundle(run_id: str, site: str, terms: SignedTerms, out: Path) -> Path:
    """Sign a finished run's release for a round, and write the bundle.

    A bundle of the same run, site, terms and key that lies there already is left as it is: signing it again would
    only change the time, and a coordinator takes one bundle per round.

    Raises:
        CausalveilError: see ``tasks.sites.bundle.make_bundle``, ``check_answerable`` and ``keep_answer`` of
            ``tasks.sites.terms``; or another file lies there.
    """
    if out.exists() and answers(read_bundle(out)[0], run_id, site, terms):
        return out
    ledger = open_ledger()
    text = make_bundle(ledger, run_id, site, terms)
    specification = parse_json(text)["statement"]["release"]["specification"]
    check_answerable(terms, site, specification, datetime.now(UTC))
    keep_answer(ledger, run_id, terms)
    return write_whole(out, text, taken=f"another file lies there; choose another {option('out')}")


SERIES_FILE, SERIES_PAGE = "series.json", "series.html"


@dataclass(frozen=True)
class SeriesResult:
    """A series, and where its file and its page lie."""

    series: Series
    path: Path
    page: Path

    def __repr__(self) -> str:
        """Return one line: study and file."""
        return f"<SeriesResult {self.series.brief()}, {self.path}>"

    def __str__(self) -> str:
        """Return the panel of the series, as plain text."""
        return f"{panel_text(self.series)}\nSeries: {self.path}"


def releases_of(study: Study, dataset: str) -> tuple[EffectRelease, ...]:
    """Return every release of the study on a dataset that may leave the ledger.

    They are of any blocks, in the order of runs.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    ledger, releases = open_ledger(), list[EffectRelease]()
    specification = _of_any_blocks(study.specification())
    for run in ledger.account(dataset).runs:
        if run.study != study.name or run.state != "finished":
            continue
        try:
            text = ledger.stored_document(run.run_id)
        except (ReleaseHeld, RunConflict):
            continue
        # A release on another question may be of another version, which cannot be read.
        if text is not None and _of_any_blocks(parse_json(text).get("specification", {})) == specification:
            release = load_release_text(text, f"the release of run {run.run_id}")
            releases += [release] if isinstance(release, EffectRelease) else []
    return tuple(releases)


def _of_any_blocks(specification: Mapping[str, Any]) -> dict[str, Any]:
    data = {key: value for key, value in specification.get("data", {}).items() if key != "select"}
    return {**specification, "data": data}


def _filled_blocks(loaded: Loaded) -> tuple[str, ...]:
    """Return the blocks that hold rows; none where the rows are not there any more."""
    if not any(loaded.folder.parquet_paths()):
        return ()
    return list_partitions(loaded.folder, loaded.study.data.blocks).blocks


def make_series(path: Path, out: str | Path | None, engine: Engine) -> SeriesResult:
    """Write the series of a study's released blocks as series.json and series.html.

    An older one is replaced.

    Args:
        path: study.yaml.
        out: folder (default ``releases/<study>-series`` below the working directory).
        engine: what runs the two stages.

    Raises:
        StudyError: not an effect's study, units span blocks, or fewer than two blocks were released.
        DataError: the data folder cannot be read, or an extract has not ended.
        LedgerError: the ledger cannot be used.
    """
    loaded = load(path)
    study = loaded.study
    if not isinstance(study, Asked):
        raise StudyError(f"a series is of effects; '{study.name}' asks for another kind of answer")
    releases = engine(Task("gather", lambda: releases_of(study, loaded.contract.dataset)))
    filled = _filled_blocks(loaded)
    series = engine(Task("series", lambda: series_of(study, releases, filled), reads=("gather",)))
    if problems := list(contradictions_of_series(series)):
        raise ReleaseContradicted(f"the series contradicts itself: {'; '.join(problems[:8])}")
    folder = Path(out) if out is not None else Path("releases") / f"{study.name}-series"
    written = write_whole(folder / SERIES_FILE, series.text())
    return SeriesResult(series, written, write_whole(folder / SERIES_PAGE, series_html(series)))
