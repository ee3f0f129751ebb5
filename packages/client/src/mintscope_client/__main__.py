"""`mintscope`: the full command line, or the client's if only the client is installed."""

from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Run the full command line, or the client's if only the client is installed."""
    is_whole = find_spec("mintscope") is not None
    import_module("mintscope.app.cli.app" if is_whole else "mintscope_client.cli.app").main()


if __name__ == "__main__":
    main()
