"""`python -m mintscope`."""

from mintscope.cli.app import main

main()
