"""`mintscope mcp` takes its credential from the environment or from a file."""

from pathlib import Path

from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope_client.cli.connection import CREDENTIAL_VARIABLE, FILE_VARIABLE, URL_VARIABLE

NOWHERE = {URL_VARIABLE: "http://127.0.0.1:9"}


def test_a_credential_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "credential"
    file.write_text("nonsense\n")
    for given in ({CREDENTIAL_VARIABLE: "nonsense"}, {FILE_VARIABLE: str(file)}):
        ended = CliRunner().invoke(app, ["mcp"], env=NOWHERE | given)

        assert ended.exit_code == 2
        assert "svc_credit_" in ended.stderr
        assert "nonsense" not in ended.stderr
