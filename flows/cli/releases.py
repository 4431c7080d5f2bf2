"""`causalveil report`, `series`, `bundle` and `pool`.

They read releases, at no charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json
from causalveil.flows.engine import settings
from causalveil.tasks.report import panel

if TYPE_CHECKING:
    from causalveil.schemas.release import Release
    from causalveil.schemas.sites.pooled import PooledRelease, Series
    from causalveil.schemas.sites.round import Bundle


def report(
    release: Annotated[
        Path,
        typer.Argument(metavar="RELEASE", help="a release.json of any kind, or its run's folder", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(help="the file to write [default: report.html beside it]")] = None,
    contract: Annotated[
        Path | None, typer.Option(help="the owner's dataset.yaml, for the reporting guidelines", show_default=False)
    ] = None,
    json_: Json = False,
) -> None:
    """Write RELEASE as one self-contained HTML page.

    TARGET, STROBE and RECORD-PE are filled in as far as is known.

    Reads RELEASE and the contract, if it is named, and asks no network.
    """
    from causalveil.flows import api

    path = api.report(release, out=out, contract=contract)
    show.either(json_, {"report": str(path)}, f"Wrote {path}")


def sensitivity(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="release.json of a run, or its folder", show_default=False)
    ],
    outcome: Annotated[
        float | None, typer.Option(min=0, max=1, help="what it explains of the outcome's variance that is left")
    ] = None,
    treatment: Annotated[
        float | None, typer.Option(min=0, max=0.99, help="what it explains of treatment's variance that is left")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="a covariate to compare a confounder with, in place of both", show_default=False
        ),
    ] = None,
    times: Annotated[float, typer.Option(min=0.01, help="how many times as strong as that covariate")] = 1.0,
    json_: Json = False,
) -> None:
    """Say how strong an unmeasured confounder would have to be, of RELEASE's first answer.

    It is read off estimate, interval and sampling variance: nothing is drawn, nothing charged. With --outcome and
    --treatment, or --like and --times, it also says what a confounder of that strength could do.
    """
    from causalveil.flows import api

    analysis = api.sensitivity(release, outcome=outcome, treatment=treatment, like=like, times=times)
    show.either(json_, analysis.document, *analysis.sentences)


def series(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="folder for series.json [default: releases/STUDY-series]")] = None,
    json_: Json = False,
) -> None:
    """Pool the released blocks of STUDY's dataset.

    Shows trend, heterogeneity and the newest block's place. Charges nothing.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.run.pooling import make_series

    settings.prepare(quiet=True)
    result = make_series(study, out, DirectEngine())
    if json_:
        show.document(
            {"path": str(result.path), "page": str(result.page), "series": result.series.model_dump(mode="json")}
        )
        return
    series_, lines = result.series, [result.series.statement]
    if series_.left_out:
        lines.append(f"Left out, as their blocks were released before: {', '.join(series_.left_out)}")
    lines += [f"Series: {result.path}", f"Page:   {result.page}"]
    _print(series_, f"series of {series_.dataset}", lines)


SiteName = Annotated[str, typer.Option("--site", help="this site, as the coordinator calls it", show_default=False)]
RoundFile = Annotated[
    Path, typer.Option("--round", metavar="FILE", help="the coordinator's round.json", show_default=False)
]

bundle_app = typer.Typer(help="A site's signed answer to a coordinator: key, make, show.", no_args_is_help=True)


@bundle_app.command()
def key(json_: Json = False) -> None:
    """Print this site's public key, for the coordinator's sites.yaml; make the key on first use."""
    from causalveil.tasks.sites.bundle import fingerprint, public_key

    public = public_key(create=True)
    digest = fingerprint(public)
    show.either(json_, {"key": public, "fingerprint": digest}, public, f"Compare by another channel: {digest}")


@bundle_app.command()
def make(
    run: Annotated[str, typer.Argument(metavar="RUN", help="the id of a finished run", show_default=False)],
    site: SiteName,
    round_: RoundFile,
    out: Annotated[Path | None, typer.Option(help="the file to write [default: SITE.json]", show_default=False)] = None,
    json_: Json = False,
) -> None:
    """Sign what RUN released, for one round. The ledger must hold the release."""
    from causalveil.flows.run.pooling import check_signer, leave_bundle

    terms = check_signer(site, round_)
    path = leave_bundle(run, site, terms, out or Path(f"{site}.json"))
    facts = {"bundle": str(path), "run_id": run, "site": site, "round": terms.terms.round}
    show.either(json_, facts, f"Wrote {path}. Read it before it is sent: causalveil bundle show {path}")


@bundle_app.command(name="show")
def show_(
    bundle: Annotated[Path, typer.Argument(metavar="FILE", help="the bundle", show_default=False)],
    json_: Json = False,
) -> None:
    """Show all that is in a bundle, and whether its signature matches.

    Whether the key is a trusted site's is not checked here: `causalveil pool` checks it by sites.yaml.
    """
    from causalveil.tasks.sites.bundle import fingerprint, read_bundle, release_of

    content, digest = read_bundle(bundle)
    release = release_of(content, str(bundle))
    if json_:
        facts = {"digest": digest, "fingerprint": fingerprint(content.key), "intact": True}
        show.document(content.model_dump(mode="json") | facts)
    else:
        print_bundle(content, release, bundle)


round_app = typer.Typer(help="A coordinator's call to sites: open, show.", no_args_is_help=True)


@round_app.command(name="open")
def open_(
    sites: Annotated[Path, typer.Argument(metavar="SITES", help="the round's sites.yaml", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="the file to write [default: round.json beside SITES]")] = None,
    json_: Json = False,
) -> None:
    """Sign the terms of SITES, before any site answers: they get the file with the study.

    The coordinator's key is made on first use. Terms that are changed later are those of a new round.
    """
    from causalveil.flows.run.pooling import open_round
    from causalveil.tasks.sites.bundle import fingerprint

    signed, path = open_round(sites, out)
    facts = {"round": str(path), "key": signed.key, "fingerprint": fingerprint(signed.key)}
    line = f"Wrote {path}, signed by {facts['fingerprint']}. Send it to every site with the study."
    show.either(json_, facts, line)


@round_app.command(name="show")
def show_terms(
    round_: Annotated[Path, typer.Argument(metavar="FILE", help="the round.json", show_default=False)],
    json_: Json = False,
) -> None:
    """Show the terms of a round, and whether its signature matches."""
    from causalveil.tasks.sites.bundle import fingerprint
    from causalveil.tasks.sites.terms import read_terms

    signed = read_terms(round_)
    show.either(
        json_,
        {**signed.model_dump(mode="json"), "digest": signed.digest},
        *(earlier.terms.words for earlier in signed.chain),
        f"Signed by {fingerprint(signed.key)}; whether to trust that key, compare by another channel.",
    )


def pool(
    sites: Annotated[Path, typer.Argument(metavar="SITES", help="the round's sites.yaml", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="folder for release.json [default: releases/ROUND]")] = None,
    json_: Json = False,
) -> None:
    """Verify the bundle of every expected site of SITES, pool them, write release.json.

    Reads no row.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.run.pooling import pool_sites

    outcome = pool_sites(sites, out, DirectEngine())
    if json_:
        show.document({"path": str(outcome.path), "release": outcome.release.model_dump(mode="json")})
    else:
        lines = [f"Release: {outcome.path}", f"Report:  causalveil report {outcome.path}"]
        _print(outcome.release, f"round {outcome.release.round}", lines)
    show.check_gates(outcome.release)


def print_bundle(content: Bundle, release: Release, path: Path) -> None:
    """Print the whole content of a bundle for a coordinator, before it is sent."""
    from causalveil.schemas.release import EffectRelease
    from causalveil.schemas.sites.round import instant_text
    from causalveil.tasks.report.panel import estimate_line
    from causalveil.tasks.report.table import units_in
    from causalveil.tasks.sites.bundle import fingerprint

    console, statement = Console(), content.statement
    estimate = ""
    if isinstance(release, EffectRelease) and release.estimate is not None and release.interval is not None:
        unit = units_in(release).get(release.answers[0].outcome)
        estimate = f"\n{estimate_line(release.estimate, release.interval, unit)}"
    console.print(
        Panel(
            f"{release.study}: {release.estimator}, {release.units:,} units of {release.dataset}{estimate}",
            title=f"bundle of site {statement.site} for round {statement.terms.terms.round}",
            title_align="left",
        )
    )
    rows = {
        "signed": instant_text(statement.issued_at),
        "by key": f"{content.key}  ({fingerprint(content.key)})",
        "run": f"{statement.run_id}, finished {instant_text(statement.finished_at)}",
        "study digest": statement.study_digest,
        "contract digest": statement.policy_digest,
        "ledger": f"{release.ledger.identity}, entry {release.ledger.entry_hash[:16]}",
        "software": f"causalveil {release.software.version}, "
        + ", ".join(f"{name} {version}" for name, version in release.software.dependencies.items()),
    }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table, highlight=False)
    console.print(show.charge_table(release.privacy.charges, title="Charges"))
    console.print(
        f"The signature matches; whether its key is to be trusted, sites.yaml says. All that would be sent is {path}.",
        highlight=False,
        soft_wrap=True,
    )


def _print(pooled: PooledRelease | Series, title: str, lines: Sequence[str]) -> None:
    """Print the panel of several releases, the unprotected facts, and further lines."""
    show.panel(panel.panel_of(pooled), title)
    for sentence in pooled.privacy.unprotected:
        Console().print(f"[yellow]Not protected: {escape(sentence)}[/yellow]", highlight=False)
    for line in lines:
        show.line(line)
