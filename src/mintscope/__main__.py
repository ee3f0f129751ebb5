"""`python -m mintscope`."""

from mintscope.shell.cli.app import main

main()
