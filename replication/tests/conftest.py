"""The product's fixtures and its way to share two processes, for tests of the replications."""

from tests import needs
from tests.conftest import home, pytest_collection_modifyitems, pytest_xdist_auto_num_workers  # noqa: F401

# Published data that are not ours to ship, and how many tests use them.
DATA = {"rhc.csv": 1, "ihdp/ihdp_1.csv": 3, "acic_challenge_2016/x.csv": 2}


def pytest_report_header() -> list[str]:
    """What is left out, said once and here."""
    return [f"skips {line}" for line in needs.absent_data(DATA)]
