"""The `replicate` command: tables, figures and pages of the papers' experiments, and the accuracy study."""

from __future__ import annotations

from causalveil.flows.cli import main as product
from causalveil_replication.commands import replicate_app


def main(arguments: list[str] | None = None) -> None:
    """Run the command; every error is one line on standard error and its exit code, as the product's are."""
    product.main(arguments, replicate_app)


if __name__ == "__main__":
    main()
