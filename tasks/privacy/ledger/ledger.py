"""Grant, reserve, release and void privacy budget across runs.

The rules are ``docs/ledger.md``. In short: an owner grants caps; a run reserves its whole plan before a row is read;
each noisy value commits together with its charge under the key (run, name) and is never drawn again; a void frees only
budget that was never drawn. Every write is one serialised transaction on an append-only chain.

A ledger can move to another database, say from one machine's SQLite file to a team's PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL, Connection

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import BudgetRefused, ContractError, LedgerError, RunConflict
from causalveil.schemas.ledger import DOCUMENT, EarlyRefusal, Reservation, Verified
from causalveil.schemas.privacy import Charge
from causalveil.tasks.machine.site import home, site_settings
from causalveil.tasks.privacy.accountant import sum_text
from causalveil.tasks.privacy.ledger.accounts import Caps, RunRecord
from causalveil.tasks.privacy.ledger.entry import Entry, amounts, log_event, whose
from causalveil.tasks.privacy.ledger.reader_side import OwnerSide, ReaderSide
from causalveil.tasks.privacy.ledger.rules import (
    BINDING_AHEAD,
    caps_with_room,
    drawn_before,
    one_line,
    refuse_another_run,
    refuse_other_data,
    refuse_undrawn,
    refuse_without_room,
)
from causalveil.tasks.privacy.ledger.soundness import Memory
from causalveil.tasks.privacy.ledger.store import URL_VARIABLE, Store, entries, with_retries

# Most refusals of a dataset that a day records. Each is some 800 bytes, whatever a study says.
MOST_REFUSALS = 100


def open_ledger(url: str | None = None) -> Ledger:
    """Open a ledger, creating or migrating its tables where needed.

    Args:
        url: ``sqlite:///path`` or ``postgresql://...``; None means the operator's (``site.toml`` or
            ``CAUSALVEIL_LEDGER_URL``) or, without one, SQLite at ``home()/ledger.db``.

    Raises:
        LedgerError: unreachable, not a ledger, or of a newer version than this program.
    """
    store = Store(url) if url else _operators_store()
    identity = store.prepare()
    return Ledger(store, identity, Memory(identity))


def ledger_at_hand() -> Ledger | None:
    """Return the ledger that ``open_ledger`` opens; None for a SQLite file yet to be made.

    Raises:
        LedgerError: see ``open_ledger``.
    """
    url = _operators_store().url
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return None
    return open_ledger()


def existing_ledger() -> Ledger:
    """Open the ledger that a command reads, which must be there: a wrong state folder has none.

    Raises:
        LedgerError: there is no such SQLite file; or see ``open_ledger``.
    """
    ledger = ledger_at_hand()
    if ledger is None:
        raise LedgerError(
            f"there is no ledger {_operators_store().place}: set CAUSALVEIL_HOME or {URL_VARIABLE} to where runs and "
            "grants have theirs"
        )
    return ledger


def throwaway_ledger(directory: Path) -> Ledger:
    """Open a SQLite ledger in a temporary folder, for simulations: its charges count nowhere."""
    store = Store(_sqlite(directory / "throwaway-ledger.db"))
    return Ledger(store, store.prepare())


def _operators_store() -> Store:
    return Store(site_settings().ledger or _sqlite(home() / "ledger.db"))


def _sqlite(path: Path) -> URL:
    return URL.create("sqlite", database=str(path))


def _plain(caps: Caps) -> dict[str, Any]:
    return {str(level): cap.model_dump() for level, cap in caps.items()}


@dataclass(frozen=True)
class Released:
    """The row of a release: its stored document, its hash, and whether this call drew it."""

    payload: dict[str, Any]
    entry_hash: str
    fresh: bool


@with_retries
@dataclass(frozen=True)
class Ledger(OwnerSide, ReaderSide):
    """One ledger: its owner's and readers' methods, and those of a run: reserve, draw, end."""

    def reserve(self, request: Reservation, contract: Contract) -> Literal["reserved", "resumed"]:
        """Reserve the run's whole cost in every block it charges, or resume an earlier reservation.

        A refusal is an entry as well, with its author, amounts and reason. It charges nothing.

        Args:
            request: the run's charges, and the data and study that it is bound to.
            contract: the owner's contract as it stands; its caps and the latest grant's bind, whichever is lower.

        Returns:
            "reserved", or "resumed" if the same run had reserved before.

        Raises:
            BudgetRefused: no grant of this contract, no cap for the level, or too little left; names the block and
                the amounts.
            RunConflict: the run id belongs to something else, or was voided.
            ContractError: the contract is not the one that the reservation names.
            DataError: the data were not admitted, or admitted anew since the run looked at them.
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        if (request.dataset, request.policy_digest) != (contract.dataset, contract.digest):
            raise ContractError(f"run {request.run_id}: the contract is not the one that the reservation names")
        refused: BudgetRefused | None = None
        entry: Entry | None
        with self._writing() as (connection, book):
            run = book.runs.get(request.run_id) or self._run(connection, request.run_id)
            if run is not None:
                refuse_another_run(run, request)
                event, entry = "resume", run.reserved
            else:
                refuse_other_data(book, request)
                try:
                    caps = caps_with_room(book, request, contract)
                except BudgetRefused as problem:
                    refused = problem
                    event, entry = "refused", self._append_refusal(connection, request, str(problem))
                else:
                    body = {"reservation": request.model_dump(), "caps": _plain(caps)}
                    event, entry = "reserve", self._append(connection, "reserve", request, body)
        written = None if entry is None else entry.hash
        adds = sum_text(request.charges, request.cost.delta)
        log_event(event, **whose(request), **amounts(request.cost), adds=adds, ledger=self.identity, hash=written)
        if refused is not None:
            raise refused
        return "reserved" if event == "reserve" else "resumed"

    def refuse_ahead(self, request: Reservation, contract: Contract) -> None:
        """Refuse a request that :meth:`reserve` would refuse whatever the rows are.

        A refusal is an entry if the dataset has an owner here who may read it.

        Args:
            request: as for :meth:`reserve`, with neither admission nor key.
            contract: the owner's, as it stands.

        Raises:
            BudgetRefused: no grant of this contract, no cap for the level, or too little left.
            RunConflict: the run id belongs to another study or dataset, or was voided.
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        with self._writing() as (connection, book):
            run = book.runs.get(request.run_id) or self._run(connection, request.run_id)
            if run is not None:
                refuse_another_run(run, request, BINDING_AHEAD)
                return
            try:
                refuse_without_room(book, request, contract)
                return
            except BudgetRefused as problem:
                refused = problem
            has_owner = request.dataset in book.grants
            entry = self._append_refusal(connection, request, str(refused)) if has_owner else None
        written = None if entry is None else entry.hash
        log_event("refused", **whose(request), **amounts(request.cost), ledger=self.identity, hash=written)
        raise refused

    def released(self, run_id: str, charge: Charge) -> Released | None:
        """Return the stored value of a run's charge, or None if the run may still draw it.

        Raises:
            BudgetRefused: the run reserved no such charge, or is voided or finished without it.
            LedgerError: the ledger cannot be used.
        """
        with self.store.read() as connection:
            entry = drawn_before(self._spender(connection, run_id), charge)
        return None if entry is None else Released(entry.document, entry.hash, fresh=False)

    def release(self, run_id: str, charge: Charge, draw: Callable[[], dict[str, Any]]) -> Released:
        """Commit a charge and its draw in one transaction, once for each (run, charge name).

        Args:
            run_id: a run that reserved this very charge.
            charge: one of its declared charges, every field equal.
            draw: called inside the transaction, and only if nothing is stored yet; returns JSON values. Whatever it
                raises is raised, and nothing is charged. It is called again only where the connection was lost and
                the value is certain not to be in the ledger: then that value was not seen.

        Raises:
            BudgetRefused: the run reserved no such charge, or is voided or finished without it.
            LedgerError: the ledger cannot be used. Run again: a draw that did commit is found.
        """
        with self._writing() as (connection, book):
            run = book.runs.get(run_id) or self._spender(connection, run_id)
            entry = drawn_before(run, charge)
            if entry is not None:
                return Released(entry.document, entry.hash, fresh=False)
            body = {"charge": charge.model_dump(), **draw()}
            entry = self._append(connection, "release", run.reservation, body, charge.name)
        log_event(
            "charge",
            **whose(run.reservation),
            stage=charge.stage,
            name=charge.name,
            mechanism=charge.mechanism,
            scope=str(charge.scope),
            **amounts(charge),
            adds=sum_text([charge], run.reservation.cost.delta),
            ledger=self.identity,
            hash=entry.hash,
        )
        return Released(entry.document, entry.hash, fresh=True)

    def finish(self, run_id: str, document: str, in_document: Set[str]) -> None:
        """Store the run's final document, which marks it finished.

        This is post-processing without a charge, and idempotent.

        Args:
            run_id: the run.
            document: its release.
            in_document: names of the charges whose stored values the document is made of.

        Raises:
            RunConflict: no such run, voided, or finished with another document.
            ChargesDiffer: a declared charge is not committed or not ``in_document``, which may hold exact values.
            LedgerError: the ledger cannot be used.
        """
        with self._writing() as (connection, book):
            run = book.runs.get(run_id) or self._run(connection, run_id)
            if run is None or run.voided:
                raise RunConflict(f"run {run_id} {'was voided' if run else 'is not in this ledger'}")
            if run.document is not None:
                if run.document.document.get("document") != document:
                    raise RunConflict(f"run {run_id} is finished with another release; that one stands")
                return
            refuse_undrawn(run, in_document)
            entry = self._append(connection, "release", run.reservation, {"document": document}, DOCUMENT)
        event = "hold" if run.reservation.review else "finish"
        log_event(event, **whose(run.reservation), ledger=self.identity, hash=entry.hash)

    def void(self, run_id: str, reason: str) -> None:
        """End a run for good and free the budget that it reserved and did not draw.

        The row stays, as do its charges.

        Raises:
            RunConflict: no such run, already voided, or finished.
            StudyError: no reason.
            LedgerError: the ledger cannot be used.
        """
        self._void(run_id, one_line(reason), only_untouched=False)

    def void_if_untouched(self, run_id: str, reason: str) -> bool:
        """Void a run that has released nothing, as after a typed failure before its first draw.

        Returns:
            Whether it was voided by this call; False also for a run that is not there or not open.
        """
        return self._void(run_id, one_line(reason), only_untouched=True)

    def settle_round(self, round_: str, digests: Mapping[str, str], publish: Callable[[], object]) -> list[str]:
        """Keep each site's first answer to a round that is published now, for good.

        Args:
            round_: the round's name.
            digests: SHA-256 of each site's answer.
            publish: writes the pooled release; not called where a site's answer is not its first. If it fails,
                nothing is kept.

        Returns:
            The sites whose answer is another one than their first; then nothing is kept.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        with self._writing() as (connection, _):
            first: dict[str, str] = {}
            for answers in self._of_round(connection, round_, "answers"):
                first |= answers
            changed = [site for site in digests if first.get(site, digests[site]) != digests[site]]
            new = {site: digest for site, digest in digests.items() if site not in first}
            if not changed:
                publish()
            if new and not changed:
                self.store.append(connection, "round", name=round_, body={"answers": new})
        return changed

    def answer_round(self, run_id: str, round_: str, terms: Sequence[str]) -> str | None:
        """Record for good that a run's release answers a round.

        A release that answered one round answers those alone that follow it.

        Args:
            run_id: the run.
            round_: the round's name.
            terms: digests of its signed terms and of those of every round before, newest first.

        Returns:
            The round that it answered before and that these terms do not follow; then nothing is kept. None: there is
            none.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        with self._writing() as (connection, _):
            answered = list(self._of_round(connection, run_id, "answered"))
            for answer in answered:
                if answer["terms"] not in terms:
                    return str(answer["round"])
            if terms[0] not in {answer["terms"] for answer in answered}:
                body = {"answered": {"round": round_, "terms": terms[0]}}
                self.store.append(connection, "round", name=run_id, body=body)
        return None

    def _of_round(self, connection: Connection, name: str, key: str) -> Iterator[dict[str, str]]:
        """Yield the values under a key of the entries of a round."""
        where = (entries.c.dataset == "", entries.c.kind == "round", entries.c.name == name)
        for entry in self.store.select(connection, *where):
            yield from [entry.document[key]] if key in entry.document else []

    def _void(self, run_id: str, reason: str, *, only_untouched: bool) -> bool:
        with self._writing() as (connection, book):
            run = book.runs.get(run_id) or self._run(connection, run_id)
            if only_untouched and (run is None or run.state != "reserved" or run.charges):
                return False
            if run is None:
                raise RunConflict(f"run {run_id} is not in this ledger")
            if run.state != "reserved":
                raise RunConflict(f"run {run_id} is already {run.state}; there is nothing to void")
            entry = self._append(connection, "void", run.reservation, {"reason": reason})
        freed = run.cost.minus(run.spent)
        log_event("void", **whose(run.reservation), **amounts(freed), ledger=self.identity, hash=entry.hash)
        return True

    def _spender(self, connection: Connection, run_id: str) -> RunRecord:
        run = self._run(connection, run_id)
        if run is None:
            raise BudgetRefused(f"run {run_id} has no reservation; nothing may be drawn")
        return run

    def note_refusal(self, refusal: EarlyRefusal, contract: Contract) -> bool:
        """Record a refusal that came before the request reached the ledger; charges nothing.

        Only under the contract that was granted: any folder could name any dataset.

        Returns:
            Whether an entry was written: not for a contract that is not the granted one, nor beyond the day's limit.

        Raises:
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        with self._writing() as (connection, book):
            grant = book.grants.get(refusal.dataset)
            if grant is None or not grant.digest == refusal.policy_digest == contract.digest:
                return False
            asked = refusal.model_dump(include={"level", "cost", "study", "policy_digest", "estimator"})
            entry = self._refusal(connection, refusal, {"asked": asked, "why": refusal.why})
        if entry is not None:
            facts = {"study": refusal.study, "run": refusal.run_id, "dataset": refusal.dataset}
            log_event("refused", **facts, **amounts(refusal.cost), ledger=self.identity, hash=entry.hash)
        return entry is not None

    def _append_refusal(self, connection: Connection, request: Reservation, why: str) -> Entry | None:
        asked = request.model_dump(
            include={"level", "blocks", "cost", "study", "study_digest", "policy_digest", "estimator", "guarantee"}
        )
        return self._refusal(connection, request, {"asked": asked, "why": why})

    def _refusal(
        self, connection: Connection, request: Reservation | EarlyRefusal, body: dict[str, Any]
    ) -> Entry | None:
        """Append an entry, unless the dataset has its most refusals of a day: they must not fill the ledger."""
        today = datetime.now(UTC).date().isoformat()
        conditions = (entries.c.dataset == request.dataset, entries.c.kind == "refuse", entries.c.written_at >= today)
        before = len(list(self.store.select(connection, *conditions, checked=False)))
        if before >= MOST_REFUSALS:
            return None
        if before == MOST_REFUSALS - 1:
            body = {**body, "why": f"{body['why']}; refusals after this one are not recorded until tomorrow (UTC)"}
        return self._append(connection, "refuse", request, body)


def copy_ledger(source: str, target: str) -> Verified:
    """Copy a ledger, identity and all, into an empty database.

    The source must be retired before anything runs again.

    Args:
        source: URL of the ledger; it is verified first, and no run may use it meanwhile.
        target: URL of a database without a ledger.

    Raises:
        LedgerError: the source does not verify, or the target is not empty.
    """
    old = open_ledger(source)
    old.verify()
    with old.store.read() as connection:
        Store(target).adopt(old.store.select(connection))
    return open_ledger(target).verify()
