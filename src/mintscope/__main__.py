"""Runs the command line of mintscope, as `python -m mintscope`."""

from mintscope.app.cli.app import main

if __name__ == "__main__":
    main()
