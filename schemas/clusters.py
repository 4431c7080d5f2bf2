"""Declare clusters of units, survey weights, and where clusters are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import CategoricalCovariate, Column, Covariate, Finite, Holds, Name, Nulls
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Frozen, Level

# At a larger coefficient of variation of cluster sizes a few hold most units (``docs/proofs/clusters.md``, section 4).
FEWEST_CLUSTERS, FEWEST_OF_AN_ARM, MOST_SIZES = 6, 3, 2.0
# Clusters for each degree of freedom of covariates that are constant within them.
PER_CONSTANT = 10
KEY = "clusters"
# Of the largest weight, what plans take the mean to be: surveys trim weights at three to five times it.
MEAN_WEIGHT = 0.25


def too_few(number: int) -> str:
    """Return why a number of clusters is too small."""
    return f"{number} clusters are too few to estimate the correlation within them; at least {FEWEST_CLUSTERS}"


def too_unlike(spread: float) -> str:
    """Return why the coefficient of variation of cluster sizes is too large."""
    return (
        f"cluster sizes vary too much, with a standard deviation of {spread:.3g} times their mean (at most "
        f"{MOST_SIZES:g}): a few clusters hold most units, and the correlation within them cannot be estimated"
    )


class DeclaredClusters(Frozen):
    """The number of clusters and the variation of their sizes, as the owner declares them.

    ``spread``: the standard deviation of their sizes over the mean size; 0 where all are of one size.
    """

    number: Annotated[int, Field(ge=2, le=10**8)]
    spread: Annotated[Finite, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.number < FEWEST_CLUSTERS:
            raise ValueError(too_few(self.number))
        if self.spread > MOST_SIZES:
            raise ValueError(f"{too_unlike(self.spread)}; leave 'clusters' out")
        return self


# The number of treated clusters, by arm where there are several; all others are of the reference.
Treated = Annotated[int, Field(ge=1)] | dict[Name, Annotated[int, Field(ge=1)]] | None
EVERY = "all"


class CountedClusters(Frozen):
    """The numbers of clusters, and of treated clusters, that have units of a subgroup."""

    number: Annotated[int, Field(ge=2, le=10**8)]
    treated: Treated = None

    @model_validator(mode="after")
    def _enough_of_each_arm(self) -> Self:
        if self.number < FEWEST_CLUSTERS:
            raise ValueError(too_few(self.number))
        if self.treated is not None and (fewest := min(self._with_reference)) < FEWEST_OF_AN_ARM:
            raise RuleBroken(
                f"'treated' leaves an arm {max(fewest, 0)} of {self.number} clusters; each arm needs at least "
                f"{FEWEST_OF_AN_ARM}",
                "treated",
            )
        return self

    @property
    def _with_reference(self) -> tuple[int, ...]:
        """The number of clusters of each arm, the reference first."""
        treated = tuple(self.treated.values()) if isinstance(self.treated, dict) else (self.treated or 0,)
        return self.number - sum(treated), *treated

    def of_arms(self, arms: Sequence[str]) -> tuple[int, ...] | None:
        """Return the number of clusters of each arm, the reference first.

        None where treatment varies within clusters.

        Raises:
            ValueError: ``treated`` does not name the arms.
        """
        if self.treated is None:
            return None
        names = list(arms[1:])
        if isinstance(self.treated, int):
            if len(names) > 1:
                raise RuleBroken(f"'treated' says how many clusters each of {names} has, by name", "clusters")
            return self._with_reference
        if sorted(self.treated) != sorted(names):
            raise RuleBroken(f"'treated' names the arms {sorted(self.treated)}, and not {sorted(names)}", "clusters")
        return self._with_reference[0], *(self.treated[name] for name in names)


class Clusters(CountedClusters):
    """The column that names the clusters of units, such as a school or a household.

    A unit without a value is a cluster of its own. ``treated``: how many clusters were treated, where treatment was
    given to whole clusters; None where it varies within them. ``subgroups``: clusters that have units of each subgroup;
    "all": each cluster has units of every subgroup. ``constant``: covariates that do not vary within clusters.
    """

    column: Name
    spread: Annotated[Finite, Field(ge=0, le=MOST_SIZES)] = 1.0
    constant: tuple[Name, ...] = ()
    subgroups: Literal["all"] | dict[str, CountedClusters] | None = None

    @property
    def whole(self) -> bool:
        """True if whole clusters were treated."""
        return self.treated is not None

    def of_group(self, group: str) -> CountedClusters:
        """Return the numbers of clusters that have units of a subgroup."""
        return self.subgroups[group] if isinstance(self.subgroups, dict) else self

    def refuse_others(self, groups: Sequence[str] | None, arms: Sequence[str]) -> None:
        """Refuse counts of subgroups or arms that the study does not have.

        Raises:
            ValueError: says what to write.
        """
        if groups is None and self.subgroups is not None:
            raise RuleBroken("'subgroups' of 'clusters' are those of the study, which has none; leave them out", KEY)
        if groups is not None and self.subgroups is None:
            raise RuleBroken(
                f"how many clusters each subgroup has is not said; write 'subgroups: {EVERY}' in 'clusters' where each "
                f"'{self.column}' has people of every one, else their numbers, as in "
                f"'subgroups: {{{groups[0]}: {{number: N{', treated: M' * self.whole}}}, ...}}'",
                KEY,
            )
        self.of_arms(arms)
        if groups is None or not isinstance(self.subgroups, dict):
            return
        if sorted(self.subgroups) != sorted(groups):
            raise RuleBroken(f"'clusters' names the subgroups {list(self.subgroups)}, and not {list(groups)}", KEY)
        for name, counts in self.subgroups.items():
            if counts.number > self.number:
                raise RuleBroken(f"subgroup '{name}' has more clusters than the {self.number} that there are", KEY)
            if (counts.treated is None) is self.whole:
                raise RuleBroken("'treated' is said of all clusters and of each subgroup's, or of none", KEY)
            counts.of_arms(arms)

    def degrees(self, covariates: Mapping[str, Covariate]) -> int:
        """Return the degrees of freedom of covariates that are constant within clusters.

        Raises:
            ValueError: a name is no covariate, or they are more than a tenth of the clusters.
        """
        if missing := [name for name in self.constant if name not in covariates]:
            raise RuleBroken(f"'constant' of 'clusters' names {missing}, which are no covariates of the study", KEY)
        constant = [covariates[name] for name in self.constant]
        degrees = sum(len(column.slots) - 1 if isinstance(column, CategoricalCovariate) else 1 for column in constant)
        groups = self.subgroups.values() if isinstance(self.subgroups, dict) else ()
        fewest = min(counts.number for counts in (self, *groups))
        if degrees * PER_CONSTANT > fewest:
            raise RuleBroken(
                f"covariates that are constant within '{self.column}' take {degrees} degrees of freedom, which "
                f"{fewest} clusters do not have to spare ({PER_CONSTANT} clusters for each); adjust for fewer of them",
                KEY,
            )
        return degrees

    @property
    def role(self) -> Column:
        """The requirement on its column."""
        return Column(holds=Holds.unit, nulls=Nulls.welcome)


class SurveyWeights(Frozen):
    """The column of survey weights and the largest weight.

    Up to a factor a weight is the number of people of the population that a unit represents. A weight above ``upper``
    counts as ``upper``, and a negative or missing one as 0. ``mean``: their approximate mean, where it is publicly
    known; plans expect it, else a quarter of ``upper``.
    """

    column: Name
    upper: Annotated[Finite, Field(gt=0)]
    mean: Annotated[Finite, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _mean_below(self) -> Self:
        if self.mean is not None and self.mean > self.upper:
            raise ValueError(f"'mean' {self.mean:g} of the weights is above 'upper' {self.upper:g}")
        return self

    @property
    def share(self) -> float:
        """The mean weight that plans expect, as a share of the largest."""
        return MEAN_WEIGHT if self.mean is None else self.mean / self.upper

    @property
    def role(self) -> Column:
        """The requirement on its column."""
        return Column(holds=Holds.number, nulls=Nulls.welcome)


def refuse_clusters(study: Any, takes: bool) -> None:
    """Refuse clusters in studies for which no proof covers them.

    Args:
        study: a ``TableStudy``.
        takes: whether its estimator takes clusters.

    Raises:
        ValueError: says what to write instead.
    """
    if study.clusters is None:
        return
    if not takes:
        raise RuleBroken(
            f"'clusters': estimator '{study.estimator.name}' counts people one by one; 'regression', "
            "'difference_in_means' and 'survival' with covariates take clusters",
            "clusters",
        )
    if study.privacy.level is not Level.sample:
        raise RuleBroken(
            f"at level '{study.privacy.level}' the sampling variance comes from pairs of people, assumed independent; "
            "'clusters' need level 'sample': declare that, or leave 'clusters' out",
            "clusters",
        )
    if study.privacy.delta == 0:
        raise RuleBroken(
            "'clusters' need a delta above 0, as in delta: 1e-6; without one leave 'clusters' out", "clusters"
        )
    if study.data.blocks is not None:
        raise RuleBroken(
            "'clusters' do not go with blocks, over which a cluster may be spread; leave 'clusters' out, or let the "
            "owner admit one block as a dataset of its own",
            "clusters",
        )
    if getattr(study, "ratios", ()):
        raise RuleBroken(
            "'measure' does not go with 'clusters', whose correlation is measured over all units; leave one out",
            "measure",
        )
