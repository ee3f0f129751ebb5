"""`mintscope programs`: which programs are read as swaps."""

import typer

from mintscope.core.dex.programs import BY_ADDRESS
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, print_rows
from mintscope.shell.wiring.decoding import programs_read

app = typer.Typer()


@app.command()
def programs(*, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the programs whose swaps are read, those that the configuration adds among them."""
    rows = [
        (
            program.name,
            program.address,
            "the programs it calls" if program.read is None else program.how,
            "mintscope" if program.address in BY_ADDRESS else "configuration",
        )
        for program in programs_read(configured(config).config.dex)
    ]
    print_rows(("program", "id", "amounts_from", "added_by"), rows, as_json=as_json)
