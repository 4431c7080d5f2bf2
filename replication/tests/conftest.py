"""The product's fixtures and its way to share two processes, for tests of the replications."""

from tests.conftest import home, pytest_collection_modifyitems, pytest_xdist_auto_num_workers  # noqa: F401
