"""`mintscope`: the whole command line, or that of a client where it is installed alone."""

from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Run the command line of what is installed."""
    is_whole = find_spec("mintscope.app") is not None
    import_module(f"mintscope.{'app' if is_whole else 'client'}.cli.app").main()


if __name__ == "__main__":
    main()
