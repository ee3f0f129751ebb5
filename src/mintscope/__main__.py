"""`python -m mintscope`: the whole command line."""

from mintscope.app.cli.app import main

if __name__ == "__main__":
    main()
