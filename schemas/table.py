"""Studies of effects: a table of questions, of one row or of many.

Its rows are outcomes by subgroups by arms.

One table answers all within one budget.

A person is one row, so groups and arms share one draw of noise, and q outcomes of equal importance cost sqrt(q) times
the noise of one (``docs/proofs/questions.md``). What an estimator does outcome by outcome it does with the table of
that outcome alone (:attr:`EffectStudy.questions`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas import limits
from causalveil.schemas.clusters import Clusters, SurveyWeights, refuse_clusters
from causalveil.schemas.columns import (
    ZERO_ONE,
    Codes,
    Column,
    Covariate,
    Finite,
    Holds,
    Missing,
    Name,
    Nulls,
    covariate_role,
    level_labels,
)
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Level
from causalveil.schemas.questions import (
    ALL_UNITS,
    MOST_CONTRASTS,
    MOST_OUTCOMES,
    TREATED,
    Arms,
    EffectMeasure,
    Expected,
    Gates,
    OutcomeRole,
    RowContrast,
    Subgroups,
    TableOutcome,
)
from causalveil.schemas.study import NOTHING_TO_ADJUST_FOR, Estimand, MissingOutcome, MissingTreatment, Study
from causalveil.schemas.where import MOST_CONDITIONS, Condition, refuse_roles

# The place of a row: outcome, subgroup and arm; and the separator of these in its name.
Row = tuple[str, str, str]
ROW_PARTS = "|"
OF_THEIR_OWN = "missing_outcome: leave_out"
# What a release at level `label` prints of public columns, of one question and of several.
PUBLIC_WEIGHTS = (
    "sizes of weights, effective sample sizes and imbalances in this release: exact functions of those columns"
)
PUBLIC_CELLS = (
    "sizes of subgroups and arms, balance, overlap and sizes of weights in this release: exact functions of those "
    "columns"
)


class TableStudy(Study):
    """The common part of studies of effects: arms, subgroups, and who is eligible.

    ``outcome`` is short for ``outcomes`` of one. Each kind of study narrows what outcomes and measures are.
    """

    kind: Literal["effect"]
    treatment: Name
    treatment_codes: Codes | None = None
    outcomes: tuple[Any, ...]
    measure: tuple[Any, ...]
    arms: Arms | None = None
    subgroups: Subgroups | None = None
    where: Annotated[tuple[Condition, ...], Field(max_length=MOST_CONDITIONS)] = ()
    missing_treatment: MissingTreatment = MissingTreatment.refuse
    estimand: Estimand = Estimand.ATE
    confidence: Annotated[Finite, Field(ge=0.5, lt=1)] = 0.95
    clusters: Clusters | None = None
    expect: Expected = Expected()

    @model_validator(mode="after")
    def _clusters_where_they_are_proved(self) -> Self:
        refuse_clusters(self, getattr(self, "TAKES_CLUSTERS", False))
        if self.clusters is not None:
            self.clusters.refuse_others(None if self.subgroups is None else self.groups, self.arm_names)
            self.clusters.degrees(getattr(self, "covariates", {}))
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_outcome(cls, document: Any) -> Any:
        if not isinstance(document, Mapping) or "outcome" not in document or "outcomes" in document:
            return document
        outcome = {**dict(document["outcome"]), "role": OutcomeRole.primary}
        return {**{key: value for key, value in document.items() if key != "outcome"}, "outcomes": (outcome,)}

    @model_validator(mode="after")
    def _a_primary_outcome(self) -> Self:
        if not any(outcome.role is OutcomeRole.primary for outcome in self.outcomes):
            raise ValueError("one outcome at least needs 'role: primary'")
        return self

    @model_validator(mode="after")
    def _two_codes_or_arms(self) -> Self:
        if self.arms is not None and self.treatment_codes is not None:
            raise ValueError("a treatment has 'arms' or two codes, not both")
        if len(self.arm_names) > 2 and self.estimand is not Estimand.ATE:
            raise ValueError(
                "several arms are compared over all units: use 'estimand: ATE', or ask of the treated of one arm in a "
                "study of it and the reference alone, by 'where'; changes of cohorts by 'design'"
            )
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, without cached properties."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy

    @property
    def asks_one(self) -> bool:
        """True if it asks about one outcome, over all units and of two arms."""
        return len(self.outcomes) == 1 and self.subgroups is None and len(self.arm_names) == 2

    @property
    def known_units(self) -> bool:
        """True if all units count in full, so that the number of units in an answer is public."""
        return not self.where and getattr(self, "weights", None) is None

    @property
    def first(self) -> int:
        """The index of the first primary outcome, whose answer is the headline."""
        return next(index for index, outcome in enumerate(self.outcomes) if outcome.role is OutcomeRole.primary)

    @property
    def codes(self) -> Codes:
        """The codes of two arms."""
        return self.treatment_codes or ZERO_ONE

    @property
    def groups(self) -> tuple[str, ...]:
        """The subgroups, or one of all units."""
        return (ALL_UNITS,) if self.subgroups is None else self.subgroups.labels

    @property
    def answered_groups(self) -> tuple[str, ...]:
        """The groups of an outcome's answers in table order: all units, then subgroups."""
        return (ALL_UNITS,) if self.subgroups is None else (ALL_UNITS, *self.groups)

    @property
    def arm_names(self) -> tuple[str, ...]:
        """The arms, the reference first; cohorts are one arm, and each outcome names its cohort."""
        arms = tuple(map(str, self.codes.pair if self.arms is None else self.arms.ordered))
        return (arms[0], TREATED) if self.of_cohorts else arms

    @property
    def cohorts(self) -> frozenset[str]:
        """Arms that have outcomes of their own."""
        if self.arms is None:
            return frozenset()
        return frozenset(arm for outcome in self.outcomes if (arm := getattr(outcome, "arm", None)) is not None)

    @property
    def of_cohorts(self) -> bool:
        """True if each outcome compares one cohort with the reference."""
        return bool(self.cohorts)

    @property
    def shared_roles(self) -> dict[str, Column]:
        """Roles of several arms, subgroups, clusters, and columns that eligibility alone reads."""
        roles: dict[str, Column] = {}
        if self.arms is not None:
            levels = self.arms.levels
            nulls = Nulls.never if self.missing_treatment is MissingTreatment.refuse else Nulls.welcome
            roles[self.treatment] = Column(holds=Holds.level, levels=levels, admitted=levels, nulls=nulls)
        if self.subgroups is not None:
            column = self.subgroups.column
            nulls = Nulls.welcome if column.nulls is Missing.indicator else Nulls.never
            roles[self.subgroups.name] = covariate_role(column, nulls)
        for condition in self.where:
            roles.setdefault(condition.column, condition.role)
        if self.clusters is not None:
            roles[self.clusters.column] = self.clusters.role
        return roles

    @property
    def compared(self) -> str:
        """Subgroups, arms and eligibility in words, to follow the number of outcomes."""
        groups = "" if self.subgroups is None else f" in {_counted(len(self.groups), 'subgroup')}"
        arms = ""
        if self.arms is not None:
            reference = level_labels(self.arms.levels, self.arms.names)[self.arm_names[0]]
            compared = (len(self.cohorts), "cohort") if self.of_cohorts else (len(self.arm_names) - 1, "arm")
            arms = f", {_counted(*compared)} against '{reference}'"
        among = f", where {' and '.join(condition.words for condition in self.where)}" if self.where else ""
        return f"{groups}{arms}{among}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


class EffectStudy(TableStudy):
    """Effects of a treatment on bounded outcomes.

    Each estimator narrows ``estimator``.
    """

    # Whether the estimator adjusts for covariates, and so needs some.
    ADJUSTS: ClassVar[bool] = True
    # Whether the estimator takes clusters of units.
    TAKES_CLUSTERS: ClassVar[bool] = False
    # Whether its sums over units may be weighted.
    TAKES_WEIGHTS: ClassVar[bool] = False
    # The levels at which it answers several questions, and questions restricted by ``where``.
    TABLES: ClassVar[tuple[Level, ...]] = ()
    # Whether units without an outcome may be left out of its answer alone.
    LEAVES_OUT: ClassVar[bool] = False
    # Whether it releases means of arms with their errors at level `sample`, which ratios need.
    ARM_MEANS: ClassVar[bool] = False

    outcomes: Annotated[tuple[TableOutcome, ...], Field(min_length=1, max_length=MOST_OUTCOMES)]
    covariates: dict[Name, Covariate]
    missing: Missing = Missing.refuse
    missing_outcome: MissingOutcome = MissingOutcome.refuse
    gates: Gates | None = None
    measure: Annotated[tuple[EffectMeasure, ...], Field(min_length=1)] = (EffectMeasure.difference,)
    contrasts: Annotated[
        tuple[RowContrast, ...], Field(max_length=MOST_CONTRASTS, exclude_if=lambda contrasts: not contrasts)
    ] = ()
    weights: Annotated[SurveyWeights | None, Field(exclude_if=lambda weights: weights is None)] = None

    def expected_units(self, units: int) -> int:
        """Return the expected number of units; if weighted, their sum over the largest weight."""
        return units if self.weights is None else round(units * self.weights.share)

    @model_validator(mode="after")
    def _weighted_where_it_is_proved(self) -> Self:
        if self.weights is None:
            return self
        reason = None
        if not self.TAKES_WEIGHTS:
            reason = (
                f"estimator '{self.estimator.name}' counts each unit once; 'regression' and 'difference_in_means' take "
                "survey weights"
            )
        elif self.privacy.level is not Level.sample:
            reason = f"level '{self.privacy.level}' has public rows and no sums to weigh; declare level 'sample'"
        elif self.privacy.delta == 0:
            reason = "survey weights need a delta above 0, as in delta: 1e-6"
        elif self.clusters is not None:
            reason = "survey weights do not go with 'clusters'; leave one of them out"
        if reason is not None:
            raise RuleBroken(f"'weights': {reason}", "weights")
        return self

    @model_validator(mode="after")
    def _rows_of_their_own(self) -> Self:
        if not self.classes:
            return self
        reason, key = None, "design" if self.of_cohorts else "missing_outcome"
        if not self.LEAVES_OUT:
            reason = f"is not served by estimator '{self.estimator.name}'; use 'regression'"
        elif self.privacy.delta == 0:
            reason = "needs a delta, as {epsilon: 1, delta: 1e-6}"
        elif self.subgroups is not None:
            reason = "answers over all units alone; ask of one subgroup by 'where'"
        elif self.clusters is not None:
            way = "leave 'clusters' out" if self.of_cohorts else "write 'missing_outcome: middle'"
            reason = f"does not go with 'clusters'; {way}"
        if reason is not None:
            raise RuleBroken(f"'{'design.cohorts' if self.of_cohorts else OF_THEIR_OWN}' {reason}", key)
        return self

    @model_validator(mode="after")
    def _each_of_its_cohort(self) -> Self:
        cohorts = set() if self.arms is None else set(map(str, self.arms.ordered[1:]))
        for outcome in self.outcomes if any(outcome.arm for outcome in self.outcomes) else ():
            if outcome.arm not in cohorts:
                raise RuleBroken(
                    f"'{outcome.name}' is of '{outcome.arm}', which is no arm beside the reference", "design"
                )
        if self.of_cohorts and self.estimand is not Estimand.ATT:
            raise RuleBroken("cohorts have effects on the treated alone: write 'estimand: ATT'", "estimand")
        if not self.of_cohorts and any(contrast.by_size for contrast in self.contrasts):
            raise RuleBroken("'by_size' weighs outcomes of cohorts; leave it out", "contrasts")
        return self

    @model_validator(mode="after")
    def _changes_of_cohorts(self) -> Self:
        changes = any(outcome.is_change for outcome in self.outcomes) and len(self.arm_names) > 2
        if changes and not getattr(self.estimator, "trial", False):
            raise RuleBroken(
                "changes of several arms: parallel trends identify the effect on the treated alone, but several arms "
                "are compared over all units; write 'cohorts' and 'periods' in 'design'",
                "arms",
            )
        return self

    @property
    def classes(self) -> tuple[tuple[int, ...], ...]:
        """Indices of outcomes that share rows, class by class; empty where all share all rows."""
        classes: dict[Any, list[int]] = {None: []}
        for index, outcome in enumerate(self.outcomes):
            classes.setdefault(index if outcome.leaves_out else outcome.arm, []).append(index)
        return tuple(map(tuple, filter(None, classes.values()))) if len(classes) > 1 else ()

    @model_validator(mode="after")
    def _contrasts_of_rows(self) -> Self:
        names = {outcome.name for outcome in self.outcomes}
        for number, contrast in enumerate(self.contrasts, 1):
            if contrast.name in names:
                raise RuleBroken(f"'contrasts.{number}': '{contrast.name}' names something else too", "contrasts")
            names.add(contrast.name)
            try:
                self.rows_of(contrast)
            except ValueError as problem:
                raise RuleBroken(f"'contrasts.{number}': {problem}", "contrasts") from None
        if self.contrasts and self.clusters is not None:
            raise RuleBroken("'contrasts' do not go with 'clusters'; leave one of them out", "contrasts")
        if self.contrasts and self.asks_one:
            raise RuleBroken(
                "'contrasts' compare rows, and this study has one; ask for more, or leave it out", "contrasts"
            )
        return self

    def rows_of(self, contrast: RowContrast) -> tuple[dict[Row, float], dict[Row, float]]:
        """Return coefficients by row: of a sum and {}, or of numerator and denominator.

        Raises:
            ValueError: names what is neither a row nor an earlier contrast.
        """
        if contrast.of is not None:
            return self._by_row(contrast.of), {}
        earlier = {before.name: before.of for before in self.contrasts[: self.contrasts.index(contrast)]}
        top, bottom = str(contrast.top), str(contrast.bottom)
        return self._by_row(earlier.get(top) or {top: 1.0}), self._by_row(earlier.get(bottom) or {bottom: 1.0})

    @property
    def taken_for_granted(self) -> tuple[limits.Limit, ...]:
        """Assumptions of changes over time, of survey weights and of contrasts of rows."""
        code, assumptions = limits.Code, list[limits.Limit]()
        if any(outcome.is_change for outcome in self.outcomes):
            assumptions += [limits.limit(code.parallel_trends), limits.limit(code.anticipation)]
        if names := tuple(outcome.name for outcome in self.outcomes if outcome.leaves_out):
            assumptions.append(limits.limit(code.attrition, columns=names))
        if self.weights is not None:
            assumptions.append(limits.limit(code.survey_design, column=self.weights.column, upper=self.weights.upper))
        sums = [rows for contrast in self.contrasts for rows in self.rows_of(contrast) if rows]
        if any(len({group for _, group, _ in rows}) > 1 and min(rows.values()) < 0 for rows in sums):
            assumptions.append(limits.limit(code.composition))
        for contrast in self.contrasts:
            if (top := contrast.top) is not None and (bottom := contrast.bottom) is not None:
                assumptions.append(limits.limit(code.exclusion, treatment=self.treatment, top=top, bottom=bottom))
        return tuple(assumptions)

    @property
    def needs_products(self) -> bool:
        """True if a contrast is of two outcomes of one subgroup, whose errors depend."""
        for contrast in self.contrasts:
            rows = [row for coefficients in self.rows_of(contrast) for row in coefficients]
            # All units overlap every subgroup.
            overlap = any(group == ALL_UNITS for _, group, _ in rows)
            for subgroup in {group for _, group, _ in rows}:
                if len({outcome for outcome, group, _ in rows if overlap or group == subgroup}) > 1:
                    return True
        return False

    def _by_row(self, coefficients: Mapping[str, float]) -> dict[Row, float]:
        """Return coefficients by the places of rows in the table, for those by names."""
        rows = dict[Row, float]()
        for name, coefficient in coefficients.items():
            row = self._row(name)
            if row in rows:
                raise ValueError(f"'{name}' is a row that stands there already")
            rows[row] = coefficient
        return rows

    def _row(self, name: str) -> Row:
        """Return the place of a row that is named by outcome, subgroup and arm."""
        outcome, *rest = (part.strip() for part in name.split(ROW_PARTS))
        column, group = None if self.subgroups is None else self.subgroups.column, ALL_UNITS
        among = self.arm_names[1:]
        groups = {str(label): str(code) for label, code in getattr(column, "of_names", {}).items()}
        arms = {str(label): str(code) for label, code in getattr(self.arms, "of_names", {}).items()}
        if rest and groups.get(rest[0], rest[0]) in self.answered_groups:
            group = groups.get(rest[0], rest[0])
            rest = rest[1:]
        if rest:
            among = tuple(arm for arm in among if arm == arms.get(rest[0], rest[0]))
        outcomes = [declared.name for declared in self.outcomes]
        if outcome not in outcomes or len(among) != 1 or len(rest) > 1:
            parts = [f"outcomes {', '.join(map(repr, outcomes))}"]
            parts += [f"subgroups {', '.join(map(repr, self.groups))}"] if self.subgroups else []
            parts += [f"arms {', '.join(map(repr, self.arm_names[1:]))}"] if len(self.arm_names) > 2 else []
            raise ValueError(
                f"'{name}' is no row of the table, as 'OUTCOME | SUBGROUP | ARM'; it has {'; '.join(parts)}"
            )
        return outcome, group, among[0]

    @model_validator(mode="after")
    def _adjusts_for_something(self) -> Self:
        if self.ADJUSTS and not self.covariates:
            raise ValueError(NOTHING_TO_ADJUST_FOR)
        return self

    @model_validator(mode="after")
    def _measures_that_are_released(self) -> Self:
        if len(set(self.measure)) < len(self.measure):
            raise RuleBroken("'measure' names one twice", "measure")
        if not self.ratios:
            return self
        measure = self.ratios[0]
        if not self.ARM_MEANS or self.privacy.level is not Level.sample:
            raise ValueError(
                f"'measure: {measure}' needs arm means with their errors, which estimator '{self.estimator.name}' does "
                "not release; in a randomised trial use {name: difference_in_means, trial: true} at level 'sample', "
                "else leave 'measure' out"
            )
        if not getattr(self.estimator, "trial", False):
            raise ValueError(
                f"'measure: {measure}' has an interval in a randomised trial alone, as the allowance for confounding "
                "is a difference; write 'trial: true' in 'estimator' where treatment was randomised, else leave "
                "'measure' out"
            )
        if not any(outcome.counts_events for outcome in self.outcomes):
            raise ValueError(
                f"'measure: {measure}' compares shares of an outcome of two values, and none here is one; leave it "
                "out, or name an outcome that the contract declares with codes"
            )
        if self.missing_outcome is MissingOutcome.middle:
            raise ValueError(
                f"'measure: {measure}' counts events, and 'missing_outcome: middle' is half of one; write 'lower' or "
                "'upper'"
            )
        return self

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        self.refuse_two_roles(", and an outcome stands once" if len(self.outcomes) > 1 else "")
        combinations = [outcome.name for outcome in self.outcomes if outcome.of]
        for name in combinations:
            if name in self.columns or combinations.count(name) > 1:
                raise ValueError(f"'{name}' names a combination of columns and something else too; rename it")
        placebos = any(outcome.role is OutcomeRole.placebo for outcome in self.outcomes)
        if self.gates is not None and self.gates.placebo is not None and not placebos:
            raise RuleBroken("'gates.placebo' needs an outcome with 'role: placebo'; add one, or leave it out", "gates")
        return self

    @model_validator(mode="after")
    def _eligible_by_other_columns(self) -> Self:
        roles = {self.data.unit: "the unit", self.treatment: "the treatment", self.data.blocks: "the block key"}
        refuse_roles(self.where, roles | {name: "an outcome" for outcome in self.outcomes for name in outcome.reads})
        return self

    @model_validator(mode="after")
    def _tables_at_its_levels(self) -> Self:
        name, level = self.estimator.name, self.privacy.level
        if level in self.TABLES or (self.asks_one and not (self.where or self.gates or self.ratios or self.contrasts)):
            return self
        if not self.TABLES:
            raise ValueError(f"estimator '{name}' answers one question of all units")
        only = self.TABLES[0]
        if level is Level.training_units:
            raise ValueError(
                f"several questions have no level 'training_units': every unit is in their table; use level '{only}'"
            )
        capable = "'balancing' or 'matching'" if level is Level.label else "'regression'"
        raise ValueError(
            f"several questions by '{name}' have level '{only}' alone; declare that, or use estimator {capable}"
        )

    @property
    def outcome(self) -> TableOutcome:
        """The outcome of the headline: the first primary one."""
        return self.outcomes[self.first]

    def indicated(self, name: str) -> bool:
        """Return whether a covariate comes with an indicator of its nulls."""
        return Missing.indicator in (self.missing, self.covariates[name].nulls)

    @cached_property
    def questions(self) -> tuple[Self, ...]:
        """The table of each outcome by itself, over all units and of two arms."""
        update: dict[str, Any] = {"arms": None, "subgroups": None, "where": (), "gates": None, "contrasts": ()}
        update |= {"clusters": None, "weights": None, "measure": (EffectMeasure.difference,)}
        update |= {"treatment_codes": self.codes}
        primary = {"role": OutcomeRole.primary, "importance": 1.0}
        return tuple(
            self.model_copy(update={**update, "outcomes": (outcome.model_copy(update=primary),)})
            for outcome in self.outcomes
        )

    @property
    def ratios(self) -> tuple[EffectMeasure, ...]:
        """The measures beside the difference, which every answer has."""
        return tuple(measure for measure in self.measure if measure is not EffectMeasure.difference)

    @property
    def outcome_weights(self) -> tuple[float, ...]:
        """Weights w_k, by which outcome k's noise is divided: roots of importance, normalised.

        sum_k w_k^2 = 1 where the release is bounded in the L2 norm, sum_k w_k = 1 in the L1 norm (:attr:`in_l1`).
        """
        roots = [math.sqrt(outcome.importance) for outcome in self.outcomes]
        total = math.fsum(roots) if self.in_l1 else math.sqrt(math.fsum(root**2 for root in roots))
        return tuple(root / total for root in roots)

    @property
    def in_l1(self) -> bool:
        """True if the release is bounded in the L1 norm, with Laplace noise on each number."""
        return self.privacy.level is Level.label and self.privacy.delta == 0

    @property
    def roles(self) -> dict[str, Column]:
        """Roles of the columns.

        The unit has no nulls; nor have treatment and outcomes, unless the study says what these count as. Covariates
        are as declared. Arms and subgroups are levels.
        """
        treatment_nulls, outcome_nulls = (
            Nulls.never if choice == "refuse" else Nulls.welcome
            for choice in (self.missing_treatment, self.missing_outcome)
        )
        roles = {
            self.data.unit: Column(holds=Holds.unit),
            self.treatment: Column(holds=Holds.binary, codes=self.codes.pair, nulls=treatment_nulls),
        }
        for name, codes in (column for outcome in self.outcomes for column in outcome.reads.items()):
            holds = Holds.number if codes is None else Holds.binary
            roles[name] = Column(holds=holds, codes=(codes or ZERO_ONE).pair, nulls=outcome_nulls)
        for name, covariate in self.covariates.items():
            roles[name] = covariate_role(covariate, Nulls.welcome if self.indicated(name) else Nulls.undeclared)
        if self.weights is not None:
            roles[self.weights.column] = self.weights.role
        return roles | self.shared_roles

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the study reads.

        They are unit, treatment, outcomes, the subgroups' column, covariates, clusters, survey weights, and columns
        that eligibility alone reads.
        """
        groups = () if self.subgroups is None else (self.subgroups.name,)
        # A column may be a part of several outcomes; a column that is an outcome by itself is named once for each, so
        # that `refuse_two_roles` finds outcomes that stand twice.
        single = [outcome.name for outcome in self.outcomes if not outcome.of]
        parts = dict.fromkeys(part.name for outcome in self.outcomes for part in outcome.of)
        outcomes = (*single, *(name for name in parts if name not in single))
        roles = tuple(role.column for role in (self.clusters, self.weights) if role is not None)
        named = (self.data.unit, self.treatment, *outcomes, *groups, *sorted(self.covariates), *roles)
        return (*named, *sorted({condition.column for condition in self.where} - set(named)))

    @property
    def question(self) -> str:
        """The estimand, the number of outcomes, subgroups, arms and eligibility, in words."""
        outcomes = "" if self.asks_one else f" of {_counted(len(self.outcomes), 'outcome')}"
        weighted = "" if self.weights is None else f", weighted by {self.weights.column}"
        return f"{self.estimand}{outcomes}{self.compared}{weighted}"

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Columns and results that the release does not protect, in words; printed with it."""
        if self.privacy.level is not Level.label:
            return super().unprotected
        return (*super().unprotected, PUBLIC_WEIGHTS if self.asks_one else PUBLIC_CELLS)
