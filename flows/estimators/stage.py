"""A stage of a flow.

One object that has its name, its work, the charges that it alone may draw, and what it reads.

An estimator is a list of stages (``estimator.py``). What it declares is what they declare, in order; what a task run is
called, tagged with and logs comes from the stage that it runs. A stage without charges is given no budget, so it cannot
draw; one with charges is given those alone, each once, and must have drawn all when it returns.

A run carries state between stages: public facts, the handle of its enclave, and the budget. Never a row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from causalveil.flows.engine.engine import Engine, Task
from causalveil.flows.engine.shown import stage_line
from causalveil.schemas.admission import Admission
from causalveil.schemas.errors import ChargesDiffer
from causalveil.schemas.plan import Layout, Sizes
from causalveil.schemas.privacy import Charge
from causalveil.schemas.study import Study
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.privacy.budget import FlowBudget, StageBudget
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.mechanisms import Budget, Declared, Slot

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
        times: of a rehearsal on fewer people than there are units: how many each stands for.
    """

    study: S
    sizes: Sizes
    enclave: Enclave
    budget: Budget
    source: RowSource | None
    rehearsal_seed: int = 0
    times: float = 1.0

    def seed_for(self, label: str) -> int:
        """Return 32 bits for a stage that needs randomness which is no noise.

        They are derived from the run's key, so that a resumed run has the same.
        """
        if self.source is None:
            return self.rehearsal_seed
        return int.from_bytes(key_of(self.source.run_id, self.source.seed).subkey(label)[:4], "big")


_LOG = logging.getLogger("causalveil.flow")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Draws = Iterable[tuple[Slot, Declared | None]]
"""Draws by name; None: the study has no such draw, and what would be released is exact by its declaration."""


P = TypeVar("P")


def recalled(decide: Callable[[S, Sizes | None], P]) -> Callable[[S, Sizes | None], P]:
    """Decide once what every stage of a study asks again, from public facts.

    The decision is kept for the last study and its sizes.
    """
    last: list[tuple[S, Sizes | None, P]] = []

    def recall(study: S, sizes: Sizes | None) -> P:
        for known, of, decided in last:
            if known is study and of == sizes:
                return decided
        decided = decide(study, sizes)
        last[:] = [(study, sizes, decided)]
        return decided

    return recall


@dataclass(frozen=True, eq=False)
class Stage(Generic[S, R_co]):
    """One stage, the same object wherever it is spoken of.

    Attributes:
        name: of its task runs, and in its charges.
        run: does the work with what its step hands it.
        charges: what it draws, from public facts alone; formulas in n where sizes are None.
        reads: stages whose results it may read.
        from_files: reads the rows of a run from files; left out where rows are in memory already.
    """

    name: str
    run: Callable[[StageRun[S]], R_co]
    charges: Callable[[S, Sizes | None], Draws] | None = None
    reads: tuple[Stage[Any, Any], ...] = ()
    from_files: bool = False

    def declare(self, study: S, sizes: Sizes | None) -> tuple[Charge, ...]:
        """Return every charge of the stage."""
        draws = () if self.charges is None else self.charges(study, sizes)
        charges = [mechanism.charge(slot) for slot, mechanism in draws if mechanism is not None]
        return tuple(charge.model_copy(update={"stage": self.name}) for charge in charges)

    def task(self, run: Run[S], results: Mapping[Stage[Any, Any], Any]) -> Task[R_co]:
        """Return the stage on one run, ready for an engine."""
        charges = self.declare(run.study, run.sizes)
        reads = tuple(read.name for read in self.reads if read in results)
        return Task(self.name, partial(_work, self, charges, run, results), charges=charges, reads=reads)


@dataclass(frozen=True)
class StageRun(Generic[S]):
    """The input of one stage.

    It has public facts, the enclave, the results that the stage reads, and its own part of the budget.
    """

    stage: Stage[S, Any]
    of_run: Run[S]
    results: Mapping[Stage[Any, Any], Any]
    allowance: StageBudget | None

    @property
    def study(self) -> S:
        """The study."""
        return self.of_run.study

    @property
    def sizes(self) -> Sizes:
        """Its public sizes."""
        return self.of_run.sizes

    @property
    def enclave(self) -> Enclave:
        """Its rows, and what stages leave there."""
        return self.of_run.enclave

    @property
    def given(self) -> tuple[S, Sizes, Enclave]:
        """Study, sizes and enclave, as most stages take them."""
        return self.study, self.sizes, self.enclave

    @property
    def source(self) -> RowSource:
        """The partitions that the run reads.

        Raises:
            ChargesDiffer: its rows are in memory.
        """
        if self.of_run.source is None:
            raise ChargesDiffer(f"stage '{self.stage.name}' reads files, and the run has none; report this")
        return self.of_run.source

    @property
    def times(self) -> float:
        """Number of units that a row stands for; one, but in rehearsals."""
        return self.of_run.times

    def seed_for(self, label: str) -> int:
        """Return 32 bits for randomness that is no noise; a resumed run has the same."""
        return self.of_run.seed_for(label)

    @property
    def budget(self) -> Budget:
        """The stage's own charges.

        Raises:
            ChargesDiffer: it declared none.
        """
        if self.allowance is None:
            raise ChargesDiffer(f"stage '{self.stage.name}' declares no charge and asks for a budget; report this")
        return self.allowance

    def __getitem__(self, stage: Stage[Any, R]) -> R:
        """Return the result of another stage.

        Raises:
            ChargesDiffer: the stage does not name it among those that it reads, or it has not run.
        """
        if stage not in self.stage.reads or stage not in self.results:
            raise ChargesDiffer(
                f"stage '{self.stage.name}' reads '{stage.name}', which it does not name or has not run; report this"
            )
        found: R = self.results[stage]
        return found


def carry_out(
    stages: Sequence[Stage[Any, Any]],
    run: Run[Any],
    engine: Engine,
    known: Mapping[Stage[Any, Any], Any] | None = None,
) -> dict[Stage[Any, Any], Any]:
    """Run stages in order and return what each returned.

    ``known`` are results of those that need not run again.
    """
    results = dict(known or {})
    for stage in stages:
        if stage not in results and not (stage.from_files and run.source is None):
            results[stage] = engine(stage.task(run, results))
    return results


def _work(stage: Stage[S, R], charges: tuple[Charge, ...], run: Run[S], results: Mapping[Stage[Any, Any], Any]) -> R:
    """Run the stage, see that it drew what it declared, and say so in the flow's log."""
    allowance = None if stage.charges is None else StageBudget(stage.name, charges, run.budget)
    found = stage.run(StageRun(stage, run, results, allowance))
    if allowance is not None:
        allowance.close()
    if isinstance(run.budget, FlowBudget):
        drawn = [charge for charge in charges if run.budget.drew(charge)]
        _LOG.info(stage_line(stage.name, charges, drawn, run.budget.committed, run.budget.reservation))
    return found
