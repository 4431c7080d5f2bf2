"""Hold a run's budget: the only way from a stage to the noise.

``spend`` commits each noisy value with its charge before it returns the value, and returns the stored value from then
on: after a retry, a crash or in a second process. Noise is never drawn twice for the same run and name, so it cannot be
averaged away, and nothing is charged twice.

``RehearsalBudget`` replicates papers' tables on public or synthetic data: seeded noise, a list of charges, no ledger.
It has no reservation, so no release document can be made from it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import CausalveilError, ChargesDiffer, LedgerError, kind_of
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.privacy import Charge
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import refuse_on_worker
from causalveil.tasks.machine.files import make_folder_durably, whole_file
from causalveil.tasks.machine.site import site_folder
from causalveil.tasks.privacy.ledger.ledger import Ledger, Released
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.privacy.noise import NoiseSource, SeededNoise


@dataclass(frozen=True)
class FlowBudget:
    """The allowance of one run that has reserved it.

    It holds no connection, so it can be shared, pickled and forked.

    Attributes:
        ledger: where the run is reserved.
        reservation: its reservation; only these charges can be spent.
        noise: the source that mechanisms draw from.
        records: folder inside the enclave for record-level noisy arrays; it must last until the run is finished.
        _drawn: by name, the charges whose values this try has: True if it drew them, False if the ledger returned them.
    """

    ledger: Ledger
    reservation: Reservation
    noise: NoiseSource
    records: Path
    _drawn: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """The run that spends."""
        return self.reservation.run_id

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Return the noisy value of a charge, which is drawn at most once in a run.

        Args:
            charge: one of the reserved charges, every field equal; its name is the key.
            draw: takes the noise source, returns a finite float64 array; called inside the ledger's transaction.

        Returns:
            The committed array, bit for bit the same on every call.

        Raises:
            BudgetRefused: not reserved, not declared so, voided or finished.
            LedgerError: the ledger cannot be used. Run again: a committed value is found.
        """
        refuse_on_worker()
        released = self.ledger.release(self.run_id, charge, lambda: _encode(draw(self.noise), charge))
        self._drawn.setdefault(charge.name, released.fresh)
        return _decode(released)

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        """Do as ``spend`` for an array with an entry per record, which stays in the enclave.

        The array is on disk before its charge commits; the ledger holds the file's name and digest. Of two
        processes that draw at once, the first to commit wins and the other returns the winner's file.

        Raises:
            BudgetRefused, LedgerError: as ``spend``.
            CausalveilError: the committed file is lost or was altered. The charge stands.
        """
        refuse_on_worker()
        released = self.ledger.released(self.run_id, charge)
        if released is not None:
            self._drawn.setdefault(charge.name, False)
            return self._read(charge, released)
        file, digest = self._write(charge, draw(self.noise))
        # On an error here the file stays: the commit may have reached the ledger.
        released = self.ledger.release(self.run_id, charge, lambda: {"records": {"file": file.name, "sha256": digest}})
        if not released.fresh:
            file.unlink(missing_ok=True)
        self._drawn.setdefault(charge.name, released.fresh)
        return self._read(charge, released)

    @property
    def committed(self) -> tuple[Charge, ...]:
        """The run's charges whose values this try has; each is committed."""
        return tuple(charge for charge in self.reservation.charges if charge.name in self._drawn)

    def drew(self, charge: Charge) -> bool:
        """Check whether this try drew a charge; False if an earlier one had committed it."""
        return self._drawn.get(charge.name, False)

    def finish(self, document: str) -> None:
        """Store the final document in the ledger, then drop the record-level files. Idempotent.

        A charge that an earlier try committed counts only if this try asked for its value too: a document made without
        it may hold the exact one.

        Raises:
            ChargesDiffer: a declared charge was not drawn, nor returned from the ledger. Nothing is stored.
            RunConflict: voided, or finished with another document.
            LedgerError: the ledger cannot be used.
        """
        self.ledger.finish(self.run_id, document, frozenset(self._drawn))
        shutil.rmtree(self.records, ignore_errors=True)

    def stored_document(self) -> str | None:
        """Return the document of the run if it is finished."""
        return self.ledger.stored_document(self.run_id)

    def _write(self, charge: Charge, values: NDArray[Any]) -> tuple[Path, str]:
        """Write an array durably under a name that is new; return the file and its SHA-256."""
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", charge.name)
        file = self.records / f"{stem}-{secrets.token_hex(8)}.npy"
        self._refuse_links()
        try:
            make_folder_durably(self.records)
            with whole_file(file, durable=True, exclusive=True) as stream:
                np.save(stream, values, allow_pickle=False)
                stream.flush()
                stream.seek(0)
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as problem:
            raise CausalveilError(
                f"run {self.run_id}: {charge.name} cannot be stored in {self.records} ({kind_of(problem)}); "
                "nothing was charged for it"
            ) from None
        return file, digest

    def _read(self, charge: Charge, released: Released) -> NDArray[Any]:
        stored = released.payload.get("records")
        if not isinstance(stored, dict):
            raise LedgerError(f"run {self.run_id}: '{charge.name}' was released as a value, not as records")
        self._refuse_links()
        try:
            file = self.records / Path(str(stored["file"])).name
            with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() == stored["sha256"]:
                    stream.seek(0)
                    array: NDArray[Any] = np.load(stream, allow_pickle=False)
                    return array
                problem = "was altered"
        except OSError:
            problem = "is lost"
        raise CausalveilError(
            f"run {self.run_id}: the file of the stored records of '{charge.name}' {problem}; the charge stands; if "
            "another machine drew them, go on there, or share its folder (CAUSALVEIL_SHARED); else void the run: "
            f"causalveil ledger void {self.run_id} --reason TEXT"
        )

    def _refuse_links(self) -> None:
        """Records hold values of single units: they go into this state folder and to no place that a link names."""
        for folder in (self.records.parent, self.records):
            if folder.is_symlink():
                raise CausalveilError(
                    f"{folder}: is a link, and records are kept in the state folder itself; remove it"
                )


class StageBudget:
    """The part of a run's budget that one stage may spend.

    It covers the stage's own charges, each once, until the stage returns.

    A stage cannot draw another stage's charges, nor leave out its own.
    """

    def __init__(self, stage: str, charges: tuple[Charge, ...], budget: Budget) -> None:
        """Hand ``charges``, which ``stage`` declared, out of ``budget``."""
        self._stage, self._budget = stage, budget
        self._left = {charge.name: charge for charge in charges}
        self._open = True

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Spend as the run's budget does.

        Raises:
            ChargesDiffer: the charge is not the stage's, or it has drawn it. Nothing is drawn.
        """
        value = self._budget.spend(self._own(charge), draw)
        del self._left[charge.name]
        return value

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        """Spend as the run's budget does.

        Raises:
            ChargesDiffer: the charge is not the stage's, or it has drawn it. Nothing is drawn.
        """
        values = self._budget.spend_records(self._own(charge), draw)
        del self._left[charge.name]
        return values

    def close(self) -> None:
        """End the stage: nothing can be drawn from now on.

        Raises:
            ChargesDiffer: it declared a charge and did not draw it.
        """
        self._open = False
        if self._left:
            names = ", ".join(f"'{name}'" for name in self._left)
            raise ChargesDiffer(
                f"stage '{self._stage}' declared {names} and did not draw it, so nothing is published; report this"
            )

    def _own(self, charge: Charge) -> Charge:
        own = self._left.get(charge.name)
        if not self._open or own is None or own != charge.model_copy(update={"stage": own.stage}):
            raise ChargesDiffer(
                f"stage '{self._stage}' draws '{charge.name}', which it did not declare so or has drawn before; it was "
                "not drawn, and nothing is published; report this"
            )
        return own


def drop_records(run_id: str) -> None:
    """Delete record-level arrays of a run whose process died after its finish was committed."""
    shutil.rmtree(records_folder(run_id), ignore_errors=True)


def records_folder(run_id: str) -> Path:
    """Return the folder of a run's record-level arrays until it finishes; not created here."""
    return site_folder() / "records" / run_id


def _encode(value: FloatArray, charge: Charge) -> dict[str, Any]:
    """An array as text that restores every bit."""
    array = np.asarray(value)
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise CausalveilError(f"'{charge.name}' is not a finite float64 array; nothing was charged for it")
    return {"value": {"shape": list(array.shape), "hex": [number.hex() for number in array.ravel().tolist()]}}


def _decode(released: Released) -> FloatArray:
    stored = released.payload.get("value")
    try:
        numbers = [float.fromhex(text) for text in stored["hex"]]  # type: ignore[index]
        return np.array(numbers, dtype=np.float64).reshape(stored["shape"])  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise LedgerError(f"ledger entry {released.entry_hash} holds no value that can be read back") from None


class RehearsalBudget:
    """Grants every charge, remembers it, and draws from a seed."""

    def __init__(self, seed: int) -> None:
        """Start from ``seed``, which fixes every draw."""
        self._noise: NoiseSource = SeededNoise(seed)
        self.charges: list[Charge] = []

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Remember the charge and draw, shape (d,)."""
        self.charges.append(charge)
        return draw(self._noise)

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        """Remember the charge and draw an entry per unit, shape (n,)."""
        self.charges.append(charge)
        return draw(self._noise)
