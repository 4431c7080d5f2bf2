"""`causalveil report`, `series`, `bundle` and `pool`.

They make something of releases, at no charge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json
from causalveil.flows.engine import settings


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
    if json_:
        show.document({"report": str(path)})
    else:
        show.line(f"Wrote {path}")


def series(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="folder for series.json [default: releases/STUDY-series]")] = None,
    json_: Json = False,
) -> None:
    """Pool the released blocks of STUDY's dataset.

    Shows trend, heterogeneity and the newest block's place. Charges nothing.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.pooling import make_series

    settings.prepare(quiet=True)
    found = make_series(study, out, DirectEngine())
    if json_:
        show.document(
            {"path": str(found.path), "page": str(found.page), "series": found.series.model_dump(mode="json")}
        )
        return
    from causalveil.flows.cli import show_sites

    show_sites.series(found)


SiteName = Annotated[str, typer.Option("--site", help="this site, as the coordinator calls it", show_default=False)]
RoundName = Annotated[str, typer.Option("--round", help="the coordinator's round", show_default=False)]

bundle_app = typer.Typer(help="A site's signed answer to a coordinator: key, make, show.", no_args_is_help=True)


@bundle_app.command()
def key(json_: Json = False) -> None:
    """Print this site's public key, for the coordinator's sites.yaml; make the key on first use."""
    from causalveil.tasks.sites.bundle import fingerprint, public_key

    public = public_key(create=True)
    if json_:
        show.document({"key": public, "fingerprint": fingerprint(public)})
    else:
        show.line(public)
        show.line(f"Compare by another channel: {fingerprint(public)}")


@bundle_app.command()
def make(
    run: Annotated[str, typer.Argument(metavar="RUN", help="the id of a finished run", show_default=False)],
    site: SiteName,
    round_: RoundName,
    out: Annotated[Path | None, typer.Option(help="the file to write [default: SITE.json]", show_default=False)] = None,
    json_: Json = False,
) -> None:
    """Sign what RUN released, for one round. The ledger must hold the release."""
    from causalveil.flows.sequence.pooling import leave_bundle

    path = leave_bundle(run, site, round_, out or Path(f"{site}.json"))
    if json_:
        show.document({"bundle": str(path), "run_id": run, "site": site, "round": round_})
    else:
        show.line(f"Wrote {path}. Read it before it is sent: causalveil bundle show {path}")


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
        show.document(
            {
                **content.model_dump(mode="json"),
                "digest": digest,
                "fingerprint": fingerprint(content.key),
                "intact": True,
            }
        )
    else:
        from causalveil.flows.cli import show_sites

        show_sites.bundle(content, release, bundle)


def pool(
    sites: Annotated[Path, typer.Argument(metavar="SITES", help="the round's sites.yaml", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="folder for release.json [default: releases/ROUND]")] = None,
    json_: Json = False,
) -> None:
    """Verify the bundle of every expected site of SITES, pool them, write release.json.

    Reads no row.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.pooling import pool_sites

    outcome = pool_sites(sites, out, DirectEngine())
    if json_:
        show.document({"path": str(outcome.path), "release": outcome.release.model_dump(mode="json")})
    else:
        from causalveil.flows.cli import show_sites

        show_sites.pooled(outcome)
    show.check_gates(outcome.release)
