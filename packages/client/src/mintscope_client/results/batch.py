"""Reports of several tokens at once."""

import msgspec

from mintscope_client.results.report import Report


class WhyNot(msgspec.Struct, frozen=True):
    """The reason for a missing report: a code of docs/api.md, and a message."""

    code: str
    message: str


class ReportOrNot(msgspec.Struct, frozen=True):
    """One mint of a batch: its report, or the reason why there is none."""

    token: str
    report: Report | None = None
    error: WhyNot | None = None


class BatchReports(msgspec.Struct, frozen=True):
    """A line for each mint, in the order of the request; *delivered* of them have a report."""

    delivered: int
    results: list[ReportOrNot]
