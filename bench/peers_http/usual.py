"""GET /v1/token in a usual implementation: FastAPI, pydantic, SQLAlchemy's ORM, slowapi.

It is as correct and durable as mintscope: one statement tests and changes the balance, every debit
has an entry, a commit is flushed, and the limit is 30 requests a minute for each credit token.

`python -m bench.peers_http.usual PORT FOLDER`, where FOLDER has `report.json`, and `tokens` with
one credit token in each line.
"""

import asyncio
import hashlib
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel, Field
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from sqlalchemy import ForeignKey, event, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

CREDITS = 1_000_000
FOLDER = Path(sys.argv[2])
WSOL = "So11111111111111111111111111111111111111112"
REPORTS = {WSOL: (FOLDER / "report.json").read_bytes()}


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    token_hash: Mapped[str] = mapped_column(unique=True)
    balance: Mapped[int]


class Entry(Base):
    __tablename__ = "entry"
    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"))
    delta: Mapped[int]
    at: Mapped[datetime]


class Price(BaseModel):
    usd: float
    sol: float


class Macd(BaseModel):
    line: float
    signal: float
    histogram: float


class Timeframe(BaseModel):
    ema9: float | None
    ema21: float | None
    ema50: float | None
    ema200: float | None
    rsi: float | None
    macd: Macd | None
    fibonacci: dict[str, float]


class Indicators(BaseModel):
    m1: Timeframe
    m5: Timeframe
    m15: Timeframe
    h1: Timeframe
    buySellPressure: dict[str, float]  # noqa: N815 - the wire's name


class Span(BaseModel):
    from_: int = Field(alias="from")
    to: int
    candleCounts: dict[str, int]  # noqa: N815 - the wire's name


class Report(BaseModel):
    token: str
    price: Price
    indicators: Indicators
    dataSpan: Span  # noqa: N815 - the wire's name


class Meta(BaseModel):
    timestamp: datetime
    requestId: str  # noqa: N815 - the wire's name


class Answer(BaseModel):
    success: bool
    data: Report
    meta: Meta


def bearer(request: Request) -> str:
    return request.headers.get("authorization", "")


engine = create_async_engine(f"sqlite+aiosqlite:///{FOLDER / 'usual.sqlite'}")
sessions = async_sessionmaker(engine, expire_on_commit=False)
limiter = Limiter(key_func=bearer)


@event.listens_for(engine.sync_engine, "connect")
def configure(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


@asynccontextmanager
async def prepared(_app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        rows = [
            {"token_hash": hash_of(token), "balance": CREDITS}
            for token in (FOLDER / "tokens").read_text().split()
        ]
        await connection.execute(insert(Account), rows)
    yield
    await engine.dispose()


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - a peer reads the clock as peers do


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def session() -> AsyncIterator[AsyncSession]:
    async with sessions() as opened:
        yield opened


app = FastAPI(lifespan=prepared)
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type] # as slowapi documents it


@app.get("/v1/token/{address}")
@limiter.limit("30/minute")
async def get_token(
    request: Request,  # noqa: ARG001 - slowapi wants it
    response: Response,
    address: str,
    store: Annotated[AsyncSession, Depends(session)],
    authorization: Annotated[str | None, Header()] = None,
) -> Answer:
    token = (authorization or "").removeprefix("Bearer ")
    account = await store.scalar(select(Account).where(Account.token_hash == hash_of(token)))
    if account is None:
        raise HTTPException(401)
    if address not in REPORTS:
        raise HTTPException(404)
    report = Report.model_validate_json(REPORTS[address])
    left = await store.scalar(
        update(Account)
        .where(Account.id == account.id, Account.balance >= 1)
        .values(balance=Account.balance - 1)
        .returning(Account.balance)
    )
    if left is None:
        raise HTTPException(402)
    store.add(Entry(account_id=account.id, delta=-1, at=now()))
    await store.commit()
    response.headers["X-Credits-Remaining"] = str(left)
    return Answer(
        success=True,
        data=report,
        meta=Meta(timestamp=now(), requestId=str(uuid.uuid4())),
    )


def main() -> None:
    config = uvicorn.Config(
        app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="error"
    )
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
