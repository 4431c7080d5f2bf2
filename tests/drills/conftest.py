"""The ledgers of the privacy tests, on both databases, for drills that damage them."""

from tests.privacy.conftest import ledger, ledger_url, postgres_url, tamper

__all__ = ["ledger", "ledger_url", "postgres_url", "tamper"]
