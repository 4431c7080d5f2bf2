"""Use of an account and the rest of its cap, in the accounting that its owner chose.

``basic`` adds epsilons and deltas. ``concentrated`` adds rho, and the deltas of tests: the cap (epsilon, delta) then
means the largest rho that implies epsilon at what tests leave of delta (``tasks/privacy/concentrated.py``). As long as
nothing with a delta was asked, epsilons may be added up instead: what either allows is admitted
(``docs/proofs/accounting.md``, section 5). A cap without delta is always basic. Use is kept in both measures, exactly,
so that an account is read off its draws alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from causalveil.schemas.ledger import RhoAccount, Sum
from causalveil.schemas.privacy import Accounting, Charge, Level, PrivacyCost, add, amount_text, subtract
from causalveil.tasks.privacy.accountant import concentrate
from causalveil.tasks.privacy.concentrated import epsilon_of_laplace, epsilon_of_rho, rho_of_cap

# Levels nest: whoever may change an outcome only, or a training unit's row only, may do so at level sample as well. So
# what a run spends at its level it also spends of these accounts.
TOUCHES = {
    Level.sample: (Level.sample, Level.label, Level.training_units),
    Level.label: (Level.label,),
    Level.training_units: (Level.training_units,),
}
# The block of a run that reads the whole dataset, or whose units may lie in several blocks.
WHOLE = "all"
MOST_FITS = 10**9


@dataclass(frozen=True)
class Use:
    """Exact sums over runs: ``epsilon`` and ``delta`` of their totals.

    ``rho``, and ``tested``, the deltas of tests.
    """

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)
    tested: Decimal = Decimal(0)

    def plus(self, other: Use) -> Use:
        """Return the exact sum."""
        return Use(
            add(self.epsilon, other.epsilon),
            add(self.delta, other.delta),
            add(self.rho, other.rho),
            add(self.tested, other.tested),
        )

    def minus(self, other: Use) -> Use:
        """Return the exact difference, not below zero."""

        def less(left: Decimal, right: Decimal) -> Decimal:
            return max(subtract(left, right), Decimal(0))

        return Use(
            less(self.epsilon, other.epsilon),
            less(self.delta, other.delta),
            less(self.rho, other.rho),
            less(self.tested, other.tested),
        )


def use_of(charges: Iterable[Charge], cost: PrivacyCost | Sum) -> Use:
    """Return the use of a run that keeps ``cost`` by these charges."""
    together = concentrate(charges)
    return Use(cost.epsilon, cost.delta, together.rho, together.delta)


@dataclass(frozen=True)
class Cap:
    """A cap in the accounting that its owner chose."""

    cost: PrivacyCost
    accounting: Accounting

    @property
    def concentrated(self) -> bool:
        """True if rho is what counts; without a delta there is none."""
        return self.accounting is Accounting.concentrated and self.cost.delta > 0

    def rho(self, use: Use) -> Decimal:
        """Return the largest rho that the cap allows, at what tests of ``use`` leave of its delta."""
        left = subtract(self.cost.delta, use.tested)
        return rho_of_cap(self.cost.epsilon, left) if left > 0 else Decimal(0)

    def excess(self, before: Use, request: Use) -> str | None:
        """Say why a request does not fit after ``before``, in amounts only; None if it fits."""
        short = self._short(before, request)
        if short is None or not self.concentrated:
            return short
        return f"{short} ({self.say(before)}){self._still_fits(before)}"

    def _short(self, before: Use, request: Use) -> str | None:
        """The amount that a request would exceed."""
        after = before.plus(request)
        if self.keeps_pure(after):
            return None
        sums = (
            ("epsilon", before.epsilon, request.epsilon, self.cost.epsilon),
            ("delta", before.delta, request.delta, self.cost.delta),
        )
        if not self.concentrated:
            return _short_of(sums)
        rho = (
            ("delta of tests", before.tested, request.tested, self.cost.delta),
            ("rho", before.rho, request.rho, self.rho(after)),
        )
        short = _short_of(rho)
        # Where nothing has a delta the sum of epsilons is what it is nearest to.
        return short and ((_short_of(sums) if after.delta == 0 else None) or short)

    def keeps_pure(self, use: Use) -> bool:
        """Check whether nothing has a delta and the sum of epsilons is within a concentrated cap.

        If so, rho need not be within it.
        """
        return self.concentrated and use.delta == 0 and use.epsilon <= self.cost.epsilon

    def _still_fits(self, before: Use) -> str:
        """The largest draw without delta that fits, in words."""
        pure = subtract(self.cost.epsilon, before.epsilon) if before.delta == 0 else Decimal(0)
        left = max(subtract(self.rho(before), before.rho), Decimal(0))
        largest = max(pure, epsilon_of_laplace(left))
        return f"; without delta, one draw of Laplace noise of epsilon {amount_text(largest)} fits" if largest else ""

    def epsilon(self, use: Use) -> Decimal:
        """Return what was used as epsilon at the cap's delta, after what tests spent of that.

        In basic accounting it is the sum of epsilons.
        """
        if not self.concentrated:
            return use.epsilon
        left = subtract(self.cost.delta, use.tested)
        added = use.epsilon if use.delta == 0 else self.cost.epsilon
        return (
            min(added, self.cost.epsilon) if left <= 0 else min(added, epsilon_of_rho(use.rho, left), self.cost.epsilon)
        )

    def sums(self, use: Use) -> Sum:
        """Use as epsilon and delta for people; only in basic accounting do these add up."""
        return Sum(epsilon=self.epsilon(use), delta=use.tested if self.concentrated else use.delta)

    def say(self, use: Use) -> str:
        """Say the amounts in words: epsilon x of cap y at delta d."""
        return (
            f"epsilon {amount_text(self.epsilon(use))} of {amount_text(self.cost.epsilon)} at delta "
            f"{amount_text(self.cost.delta)}"
        )

    def share_left(self, use: Use) -> float:
        """Return the share of the cap that is left, of rho or the scarcer of epsilon and delta."""
        if self.concentrated:
            pairs = [(use.rho, self.rho(use)), (use.tested, self.cost.delta)]
        else:
            pairs = [(use.epsilon, self.cost.epsilon), (use.delta, self.cost.delta)]
        left = min(max(0.0, 1 - float(used / cap)) if cap > 0 else float(used == 0) for used, cap in pairs)
        return max(left, 1 - float(use.epsilon / self.cost.epsilon)) if self.keeps_pure(use) else left

    def fits(self, before: Use, request: Use) -> int:
        """Return how many runs like ``request`` fit after ``before``; at most a billion."""

        def count_fits(count: int) -> bool:
            many = Use(request.epsilon * count, request.delta * count, request.rho * count, request.tested * count)
            return self._short(before, many) is None

        if not count_fits(1):
            return 0
        low, high = 1, 2
        while high < MOST_FITS and count_fits(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if count_fits(middle) else (low, middle)
        return min(low, MOST_FITS)

    def rho_account(self, used: Use, spent: Use) -> RhoAccount | None:
        """Return the account in rho.

        It is None in basic accounting, and where epsilons are added up because rho would not fit.
        """
        if not self.concentrated:
            return None
        granted = self.rho(used)
        if used.rho > granted and self.keeps_pure(used):
            return None
        return RhoAccount(
            granted=granted,
            spent=spent.rho,
            reserved=max(subtract(used.rho, spent.rho), Decimal(0)),
            remaining=max(subtract(granted, used.rho), Decimal(0)),
        )


def _short_of(amounts: Iterable[tuple[str, Decimal, Decimal, Decimal]]) -> str | None:
    """The first amount that is exceeded, in words.

    Also one of which nothing is asked, since what tests take of delta lowers the rho that was allowed before.
    """
    for what, used, asked, cap in amounts:
        if add(used, asked) > cap:
            return (
                f"{what} spent or reserved {amount_text(used)}, requested {amount_text(asked)}, remaining "
                f"{amount_text(max(subtract(cap, used), Decimal(0)))} of {amount_text(cap)}"
            )
    return None


def share_of_request(cap: Cap, before: Use, request: Use) -> float:
    """Return the share of what is left that a request would take.

    It is infinite where nothing is left. For ``plan``.
    """
    fits = cap.share_left(before)
    after = cap.share_left(before.plus(request))
    return math.inf if fits <= 0 else (fits - after) / fits
