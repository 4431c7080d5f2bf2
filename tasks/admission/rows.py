"""Does a partition keep what the contract declares of its columns? Every problem at once, with counts for the owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from causalveil.schemas.admission.casts import Roles, Types, families_differ
from causalveil.schemas.admission.cohort import Rule
from causalveil.schemas.admission.manifest import Finding
from causalveil.schemas.columns import Holds
from causalveil.schemas.plan import Partition

if TYPE_CHECKING:
    import polars as pl


class Rules:
    """What columns and rows are held to: one pandera schema for all partitions, and what it found, for their owner."""

    def __init__(self, roles: Roles) -> None:
        """Make the schema; ``roles``: what each column must hold.

        Raises:
            CausalveilError: pandera cannot be imported.
        """
        # Commands that look at no data do not wait for pandera.
        from causalveil.schemas.admission.contract_schema import ContractSchema

        self._roles = roles
        self.contract = ContractSchema(roles)

    def of_types(self, partition: Partition, types: Types, first: Types, *, exact: bool) -> list[Finding]:
        """Find columns whose types are wrong; arguments as of :func:`type_findings`."""
        wrong = self.contract.wrong(types) if partition.rows else {}
        return type_findings(self._roles, wrong, partition, types, first, exact=exact)

    def keep(self, frame: pl.DataFrame) -> bool:
        """Check that every row of a frame, as it is read, keeps every rule of the columns that it has."""
        return not self.contract.broken(frame)

    def broken(self, frame: pl.DataFrame, types: Types) -> Counter[tuple[str, Rule]]:
        """Count the rows of a frame, as it is read, that break a rule of one of its columns.

        Args:
            frame: some rows of a file.
            types: in which the file stores its columns.
        """
        counts = self.contract.broken(frame)
        return Counter({(name, self._worded(name, rule, types)): rows for (name, rule), rows in counts.items()})

    def _worded(self, name: str, rule: Rule, types: Types) -> Rule:
        """Return the rule in words that fit what is stored: a unit that is no whole number is read as a null."""
        stored = types[name]
        fractions = self._roles[name].holds is Holds.unit and stored.is_numeric() and not stored.is_integer()
        return Rule.null_unit if rule is Rule.null and fractions else rule


def type_findings(
    roles: Roles, wrong: Mapping[str, Rule], partition: Partition, types: Types, first: Types, *, exact: bool
) -> list[Finding]:
    """Find columns that are missing, of a wrong type, or not to be read as one with the first partition's.

    Args:
        roles: what each column must hold.
        wrong: the columns that by themselves break a rule of types.
        partition: a file; one without rows holds nothing of a wrong type.
        types: of its columns, from its footer: no row is read.
        first: of the first partition that has rows.
        exact: whether whole numbers must have one type too, as where rows are written anew.
    """
    found = list[Finding]()
    for name, role in roles.items() if partition.rows else ():
        rule = wrong.get(name)
        if rule is None and name in first and families_differ(role, types[name], first[name], exact=exact):
            rule = Rule.same_type
        if rule is not None:
            found.append(Finding(path=partition.path, column=name, rule=rule))
    return found


def row_findings(partition: Partition, counts: Counter[tuple[str, Rule]]) -> list[Finding]:
    """Return what :meth:`Rules.broken` counted in one partition, for its owner."""
    return [Finding(path=partition.path, column=name, rule=rule, rows=rows) for (name, rule), rows in counts.items()]
