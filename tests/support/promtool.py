"""Evaluates rules of Prometheus alerts over made-up samples by promtool, if it is installed."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

PROMTOOL: Final = shutil.which("promtool")
by_promtool: Final = pytest.mark.skipif(
    PROMTOOL is None, reason="no rule was evaluated: promtool is not installed"
)


def values_at(
    folder: Path,
    expression: str,
    series: Mapping[str, str],
    times_s: Sequence[int],
    *,
    step_s: int = 60,
) -> dict[int, str]:
    """Return the values of *expression* by time, as promtool prints them.

    Times without a value are absent.

    series    samples in promtool's notation, *step_s* seconds apart, by metric with labels
    times_s   seconds after the first sample
    """
    # promtool prints an expression, with its comment, and its values if they are not as expected.
    checks = [
        {"expr": f"{expression}\n# {at_s}", "eval_time": f"{at_s}s", "exp_samples": []}
        for at_s in times_s
    ]
    said = failures(folder, series, step_s=step_s, promql_expr_test=checks)
    found = re.findall(r'# (\d+)", time: .*\n.*\n +got: (.*)', said)
    return {int(at_s): values for at_s, values in found}


def failures(
    folder: Path,
    series: Mapping[str, str],
    *,
    step_s: int = 60,
    rules: Mapping[str, Any] | None = None,
    **checks: Sequence[Mapping[str, Any]],
) -> str:
    """Run the *checks* of promtool on *series*; return its output if they fail, "" if they pass."""
    alone, probed = folder / "alone.yaml", folder / "probed.yaml"
    alone.write_text(json.dumps(rules or {"groups": []}))
    samples = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": f"{step_s}s", "input_series": samples, **checks}
    probed.write_text(
        json.dumps(
            {"rule_files": [alone.name], "evaluation_interval": f"{step_s}s", "tests": [test]}
        )
    )
    assert PROMTOOL is not None
    ran = subprocess.run(
        [PROMTOOL, "test", "rules", str(probed)], capture_output=True, text=True, check=False
    )
    said = ran.stdout + ran.stderr
    if ran.returncode == 0:
        return ""
    assert "exp:" in said, said  # else the file is wrong
    return said
