"""``python -m causalveil``: the same as the ``causalveil`` command."""

from causalveil.flows.cli.main import main

if __name__ == "__main__":
    main()
