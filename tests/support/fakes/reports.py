"""Reports with values written by hand."""

from mintscope.kit.errors import InsufficientData, TokenNotFound
from mintscope.kit.primitives import Mint, Slot
from mintscope.market.report import PLAIN, ReadReport, ReportKind
from mintscope.solana.blocks import USDC, USDT, WSOL

REPORT = b'{"token":"So11111111111111111111111111111111111111112","price":{"usd":150.5,"sol":1.0}}'


class FakeReports:
    """Reports: wrapped SOL has a report, USDC has too little history, USDT is not tracked.

    others          mints that have the same report
    price_age_ms    the age of the price of a mint; 0 for mints without an entry
    """

    def __init__(self) -> None:
        self.age_ms = 412
        self.price_age_ms: dict[str, int | None] = {}
        self.reads = 0
        self.bug: Exception | None = None
        self.others: set[str] = set()
        self.kinds: list[ReportKind] = []
        self.body = REPORT
        self.tag = b'W/"as it was"'

    def ready(self, mint: str) -> ReadReport | None:
        if self.bug is not None or mint not in {WSOL, *self.others}:
            return None
        self.reads += 1
        return self._of(mint)

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:
        self.kinds.append(kind)
        self.reads += 1
        if self.bug is not None:
            raise self.bug
        if mint == USDC:
            raise InsufficientData("there are 3 m1 candles; a report needs 9")
        if mint not in {WSOL, *self.others}:
            raise TokenNotFound("this token is not tracked")
        return self._of(mint)

    def _of(self, mint: str) -> ReadReport:
        price_age_ms = self.price_age_ms.get(mint, 0)
        body = self.body
        if mint in self.price_age_ms and b'"price":{' in body:
            reported = b"null" if price_age_ms is None else b"%d" % price_age_ms
            body = body.replace(b'"price":{', b'"price":{"ageMs":%b,' % reported)
        return ReadReport(body, Slot(350_000_000), self.age_ms, self.tag, price_age_ms)


TRACKED, TOO_YOUNG, UNTRACKED = WSOL, USDC, USDT
