"""`make report`: writes a report to build/report, from the last benchmarks and proofs."""

import json
import sys
from typing import Any, Final

import msgspec
from bench.figure import KEPT as BENCH

from prove.figures import caught, figure
from prove.fuzz.outcome import KEPT as FUZZED
from prove.fuzz.outcome import Fuzzed
from prove.journal import open_journal
from prove.mutation.score import KEPT as MUTATED
from prove.mutation.score import Score
from prove.recipe import BUILD
from prove.recipes import RECIPES
from prove.report import machine
from prove.report.bars import bars
from prove.report.page import Section, write_html, write_markdown

TITLE: Final = "mintscope: measured and proven"
BENCHMARKS: Final = (
    "Each figure of ours stands above those of its peers. The ratio says how many times better ours"
    " is than that peer."
)
PROVEN: Final = (
    "Each recipe was run, and then again on builds with one line broken: it must fail on each."
)
FUZZING: Final = "Made-up input for what strangers send. Anything but a refusal is uncaught."
MUTATION: Final = (
    "mutmut changed one operator, constant, argument or statement at a time. The percentage is of"
    " those that are not justified in prove/mutation/survivors.toml."
)


def main() -> int:
    """Write the report on all proofs as Markdown and HTML, and print both paths; return 0."""
    sections = [_benchmarks(), _recipes(), _fuzzing(), _mutation(), _machine()]
    folder = BUILD / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(write_markdown(TITLE, sections))
    (folder / "index.html").write_text(write_html(TITLE, sections))
    print("build/report/index.html and build/report/report.md")
    return 0


def _benchmarks() -> Section:
    kept = sorted(BENCH.glob("*.jsonl"))
    figures = [json.loads(line) for file in kept for line in file.read_text().splitlines()]
    compared = [
        (f"{each['what']}: {each['who']}", each["ratio"])
        for each in figures
        if each["ratio"] is not None
    ]
    return Section(
        title="Benchmarks",
        text=BENCHMARKS if figures else "Nothing was measured yet: `make bench` does it.",
        head=("what", "who", "value", "unit", "spread", "CPU, us", "wall, us", "ours is", "goal"),
        rows=[_figure_row(each) for each in figures],
        svg=bars(compared),
    )


def _figure_row(each: dict[str, Any]) -> tuple[str, ...]:
    def shown(name: str, form: str) -> str:
        return "" if each.get(name) is None else format(each[name], form)

    ratio = shown("ratio", ",.2f")
    return (
        *(each["what"], each["who"], f"{each['value']:,.2f}", each["unit"]),
        *(shown("spread", ".1%"), shown("cpu_us", ",.1f"), shown("wall_us", ",.1f")),
        *(f"{ratio}x" if ratio else "", each["goal"]),
    )


def _recipes() -> Section:
    full = open_journal(full=True)
    journal = full if full.outcomes else open_journal(full=False)
    rows = []
    for name, recipe in RECIPES.items():
        outcome = journal.outcomes.get(name)
        state = "not run" if outcome is None else "passed" if outcome.good else "FAILED"
        found, made = caught(recipe, journal)
        reported = "" if outcome is None else figure(outcome)
        if outcome is not None and outcome.skipped:
            reported += f"; did not run: {'; '.join(outcome.skipped)}"
        rows.append((name, recipe.proves, state, reported, f"{found} of {made}"))
    length = "at full length" if full.outcomes else "in their short form"
    return Section(
        title="Recipes",
        text=f"{PROVEN} These were run {length}."
        if journal.outcomes
        else "Nothing was proven yet of this code: `make prove` does it.",
        head=("recipe", "what it proves", "", "figure", "broken builds caught"),
        rows=rows,
    )


def _fuzzing() -> Section:
    kept = FUZZED.read_bytes() if FUZZED.is_file() else b"{}"
    outcomes = msgspec.json.decode(kept, type=dict[str, Fuzzed])
    return Section(
        title="Fuzzing",
        text=FUZZING if outcomes else "Nothing was fuzzed yet: `make fuzz` does it.",
        head=("target", "inputs", "inputs a second", "uncaught"),
        rows=[
            (
                name,
                f"{each.examples:,}",
                f"{each.examples / each.seconds:,.0f}",
                "1" if each.uncaught else "0",
            )
            for name, each in outcomes.items()
        ],
    )


def _mutation() -> Section:
    kept = MUTATED.read_bytes() if MUTATED.is_file() else b"{}"
    scores = msgspec.json.decode(kept, type=dict[str, Score])
    return Section(
        title="Mutation testing",
        text=MUTATION if scores else "Nothing was mutated yet: `make mutation` does it.",
        head=("module", "mutants", "killed", "justified", "survived", "killed, %", "took, s"),
        rows=[
            (
                module,
                str(score.mutants),
                str(score.killed),
                str(score.justified),
                str(len(score.survivors)),
                f"{score.percent():.1f}",
                f"{score.seconds:.0f}",
            )
            for module, score in sorted(scores.items())
        ],
    )


def _machine() -> Section:
    return Section(
        title="Measured on",
        text="Absolute figures move with the machine, ratios hardly.",
        head=("what", "which"),
        rows=list(machine.rows()),
    )


if __name__ == "__main__":
    sys.exit(main())
