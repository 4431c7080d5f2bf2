"""State that a run carries between stages: public facts, the handle of its enclave, and the budget. Never a row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.plan import Layout, Sizes
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.mechanisms import Budget

S = TypeVar("S", bound=Study)


@dataclass(frozen=True)
class RowSource:
    """The partitions that a run has still to read.

    Attributes:
        folder: the data folder, held to the admission.
        layout: what lies there.
        scratch: the files of the run's enclave.
        run_id: from which stages derive the run's key.
        seed: of a simulated run, whose key is derived from it instead.
        admission: the manifest that every partition is held to.
    """

    folder: DataFolder
    layout: Layout
    scratch: Path
    run_id: str
    seed: int | None
    admission: Admission


@dataclass(frozen=True)
class Run(Generic[S]):
    """One run of one study.

    Attributes:
        study: the study.
        sizes: its public sizes.
        enclave: its rows, and what stages leave there.
        budget: where noise is drawn and charged.
        source: whence the rows come; None: they are in memory already.
        rehearsal_seed: without a source, of what else is random: learners.
    """

    study: S
    sizes: Sizes
    enclave: Enclave
    budget: Budget
    source: RowSource | None
    rehearsal_seed: int = 0

    def seed_for(self, label: str) -> int:
        """Return 32 bits for a stage that needs randomness which is no noise.

        They are derived from the run's key, so that a resumed run has the same.
        """
        if self.source is None:
            return self.rehearsal_seed
        return int.from_bytes(key_of(self.source.run_id, self.source.seed).subkey(label)[:4], "big")
