/** Requests, waits and counts of a call, by answers written by hand. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import {
  Client,
  CreditBudget,
  NotNowError,
  OverBudgetError,
  Payer,
  parseKeypair,
  PendingError,
  RefusedError,
  TooManyRequestsError,
  UnpaidError,
  UnreachableError,
  UnreadableError,
  WillNotPayError,
  WrongCallError,
} from "../src/index.ts";

const TOKEN = `svc_credit_${"0".repeat(64)}`;
const PIN = { network: "n", asset: "a", payTo: "p", atomsPerPayment: 10n, atomsInAll: 15n };

function answered(data: unknown = { balance: 7 }, headers: Record<string, string> = {}): Response {
  return Response.json({ success: true, data, meta: {} }, { headers });
}

function refused(status: number, code: string, headers: Record<string, string> = {}): Response {
  return Response.json({ success: false, error: { code, message: "because" } }, { status, headers });
}

function demand(amount: string, payTo = "p", ...before: object[]): Response {
  const offer = { scheme: "exact", network: "n", asset: "a", amount, payTo };
  const text = btoa(JSON.stringify({ x402Version: 2, accepts: [...before, offer] }));
  return refused(402, "PAYMENT_REQUIRED", { "PAYMENT-REQUIRED": text });
}

/** A fetch that answers what it is given, one after the other. */
function scripted(...replies: (Response | Error)[]) {
  const sent: Request[] = [];
  const fetch = (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    sent.push(new Request(input, init));
    const reply = replies.shift() ?? new Error("there is no further answer");
    return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
  };
  return { fetch, sent };
}

test("an answer is data, paid for by the credential", async () => {
  const { fetch, sent } = scripted(answered({ token: "m" }, { "X-Credits-Remaining": "6" }));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });

  assert.equal((await client.token("m")).token, "m");
  assert.equal(sent[0]?.headers.get("Authorization"), `Bearer ${TOKEN}`);
  assert.equal(sent[0]?.url, "https://api.example/v1/token/m");
  assert.equal(client.budget.spent, 1);
});

test("an answer says whether its token trades", async () => {
  const { fetch } = scripted(answered({}, { "X-Data-Status": "idle", "X-Data-Age-Ms": "12" }), answered());
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  const call = { name: "token", method: "GET", path: "/v1/token/m", creditsMax: 1 } as const;
  const told = await client.send(call);

  assert.deepEqual([told.dataStatus, told.dataAgeMs], ["idle", 12]);
  assert.equal((await client.send(call)).dataStatus, null);
});

test("young tokens and closed candles are asked for in a query, and in the body of a batch", async () => {
  const { fetch, sent } = scripted(answered(), answered({ delivered: 0, results: [] }));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  await client.token("m", { partial: true, candles: "closed" });
  await client.batch(["m"], { partial: true, candles: "closed" });

  assert.equal(sent[0]?.url, "https://api.example/v1/token/m?partial=true&candles=closed");
  assert.deepEqual(await sent[1]?.json(), { mints: ["m"], partial: true, candles: "closed" });
});

test("what passes is sent again with the same key", async () => {
  const { fetch, sent } = scripted(
    refused(503, "DATA_STALE", { "Retry-After": "0" }),
    new TypeError("fetch failed"),
    answered(),
  );
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  await client.token("m");

  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((each) => each.headers.get("Idempotency-Key"))).size, 1);
  assert.equal(client.budget.spent, 1); // the service takes credits once for a key
});

test("a retry of a lost call has the credits of the call", async () => {
  const { fetch } = scripted(new TypeError("fetch failed"), answered());
  const budget = new CreditBudget({ creditsInAll: 1 });
  const client = new Client("https://api.example", { credential: TOKEN, fetch, budget });
  await client.token("m");

  assert.equal(budget.spent, 1);
});

test("a refusal is thrown by its status, told by its code, and costs nothing", async () => {
  const { fetch } = scripted(refused(402, "INSUFFICIENT_CREDITS", { "X-Request-Id": "r-1" }));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });

  await assert.rejects(client.token("m"), (failure: unknown) => {
    assert(failure instanceof UnpaidError && failure instanceof RefusedError);
    assert.deepEqual([failure.code, failure.requestId], ["INSUFFICIENT_CREDITS", "r-1"]);
    return true;
  });
  assert.equal(client.budget.spent, 0);
});

test("a redirect is not followed, and refuses the call at once", async (t) => {
  const seen: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    seen.push(request.url);
    response.writeHead(308, { Location: "/elsewhere" }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const client = new Client(`http://127.0.0.1:${port}`, { credential: TOKEN, retriesMax: 1 });

  await assert.rejects(client.token("m"), (failure: unknown) => failure instanceof WrongCallError && failure.status === 308);
  assert.deepEqual(seen, ["/v1/token/m"]);
  assert.equal(client.budget.spent, 0);
});

test("a wait beyond its patience is thrown with what to wait", async () => {
  const { fetch } = scripted(refused(429, "RATE_LIMITED", { "Retry-After": "31" }));
  const client = new Client("https://api.example", { fetch });

  await assert.rejects(client.bundles(), (failure: unknown) => {
    assert(failure instanceof TooManyRequestsError);
    assert.equal(failure.retryAfterMs, 31_000);
    return true;
  });
});

test("what stays away is given up, what is garbled is not asked for again", async () => {
  const gone = scripted(new TypeError("fetch failed"));
  const garbled = scripted(new Response("<html>welcome to the hotel</html>"));
  const options = { credential: TOKEN, patienceMs: 0 };

  await assert.rejects(new Client("https://a", { ...options, fetch: gone.fetch }).token("m"), UnreachableError);
  await assert.rejects(new Client("https://a", { ...options, fetch: garbled.fetch }).token("m"), UnreadableError);
});

test("a call over the budget is not sent", async () => {
  const { fetch, sent } = scripted(answered(), answered());
  const budget = new CreditBudget({ creditsInAll: 1 });
  const client = new Client("https://api.example", { credential: TOKEN, fetch, budget });
  await client.token("m");

  await assert.rejects(client.token("m"), OverBudgetError);
  assert.equal(sent.length, 1);
});

test("a demand is paid once, as it is pinned, and redeemed by its key", async () => {
  const signed: string[] = [];
  const payer = new Payer(PIN, {
    sign: (_demand, offer) => {
      signed.push(offer.amount);
      return Promise.resolve("the-payment");
    },
  });
  const { fetch, sent } = scripted(
    demand("9"),
    refused(503, "PAYMENT_PENDING", { "Retry-After": "0" }),
    answered({ token: "t", credits: 10, pricePaid: 9 }),
  );
  const client = new Client("https://api.example", { payer, fetch });

  assert.equal((await client.buyCredits(10)).credits, 10);
  assert.deepEqual(signed, ["9"]);
  assert.deepEqual(
    sent.map((each) => each.headers.get("PAYMENT-SIGNATURE")),
    [null, "the-payment", "the-payment"],
  );
  assert.equal(new Set(sent.map((each) => each.headers.get("Idempotency-Key"))).size, 1);
  assert.equal(payer.spent, 9n);
});

test("a payment is not sent again at once, even if the service asks for no wait", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(Math, "random", () => 1);
  const payer = new Payer(PIN, { sign: () => Promise.resolve("payment") });
  const pending = refused(503, "PAYMENT_PENDING", { "Retry-After": "0" });
  const bought = answered({ token: "t", credits: 10, pricePaid: 9 });
  const { fetch, sent } = scripted(demand("9"), pending, bought);
  const purchase = new Client("https://a", { payer, fetch }).buyCredits(10);
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  assert.equal(sent.length, 2);

  t.mock.timers.tick(500);
  assert.equal((await purchase).credits, 10);
});

test("nothing is signed for another payee, for too much, or twice over the limit", async () => {
  const payer = new Payer(PIN, { sign: () => Promise.resolve("the-payment") });
  const ask = (reply: Response) =>
    new Client("https://a", { payer, fetch: scripted(reply, answered({ token: "m" })).fetch }).token("m");

  await assert.rejects(ask(demand("9", "a thief")), WillNotPayError);
  await assert.rejects(ask(demand("11")), OverBudgetError);
  await ask(demand("9"));
  await assert.rejects(ask(demand("7")), OverBudgetError);
  assert.equal(payer.spent, 9n);
});

test("of several offers, as where USDC is taken beside another token, the pinned one is signed", async () => {
  const signed: string[] = [];
  const payer = new Payer(PIN, {
    sign: (_, offer) => {
      signed.push(`${offer.amount} ${offer.asset}`);
      return Promise.resolve("the-payment");
    },
  });
  const other = { scheme: "exact", network: "n", asset: "b", amount: "1", payTo: "p" };
  const { fetch } = scripted(demand("9", "p", other), answered({ token: "m" }));
  await new Client("https://a", { payer, fetch }).token("m");

  assert.deepEqual(signed, ["9 a"]);
});

test("PendingError has the key of the payment, and a call with this key sends the same payment", async () => {
  let signed = 0;
  const payer = new Payer(PIN, { sign: () => Promise.resolve(`payment ${++signed}`) });
  const bought = answered({ token: "t", credits: 10, pricePaid: 9 });
  const { fetch, sent } = scripted(demand("9"), refused(503, "PAYMENT_PENDING", { "Retry-After": "181" }), bought);
  const client = new Client("https://a", { payer, fetch });
  const pending: unknown = await client.buyCredits(10).catch((failure: unknown) => failure);
  assert.ok(pending instanceof PendingError);

  await client.buyCredits(10, pending.key);
  assert.deepEqual(
    sent.map((each) => each.headers.get("PAYMENT-SIGNATURE")),
    [null, "payment 1", "payment 1"],
  );
  assert.equal(payer.spent, 9n);
});

test("a second payment is not signed for the key of a pending one, even if the service demands it", async () => {
  const payer = new Payer({ ...PIN, atomsInAll: 100n }, { sign: () => Promise.resolve("the-payment") });
  const { fetch } = scripted(demand("9"), refused(503, "PAYMENT_PENDING", { "Retry-After": "181" }), demand("9"));
  const client = new Client("https://a", { payer, fetch });
  const pending: unknown = await client.buyCredits(10).catch((failure: unknown) => failure);
  assert.ok(pending instanceof PendingError);

  await assert.rejects(client.buyCredits(10, pending.key), UnpaidError);
  assert.equal(payer.spent, 9n);
});

test("two calls with one key at the same time sign one payment", async () => {
  let signed = 0;
  const payer = new Payer({ ...PIN, atomsInAll: 100n }, { sign: () => Promise.resolve(`payment ${++signed}`) });
  const bought = () => answered({ token: "t", credits: 10, pricePaid: 9 });
  const client = new Client("https://a", { payer, fetch: scripted(demand("9"), demand("9"), bought(), bought()).fetch });
  await Promise.all([client.buyCredits(10, "one"), client.buyCredits(10, "one")]);

  assert.equal(signed, 1);
  assert.equal(payer.spent, 9n);
});

test("a paid call is forgotten, so that its key can pay for another call", async () => {
  let signed = 0;
  const payer = new Payer({ ...PIN, atomsInAll: 100n }, { sign: () => Promise.resolve(`payment ${++signed}`) });
  const bought = () => answered({ token: "t", credits: 10, pricePaid: 9 });
  const client = new Client("https://a", { payer, fetch: scripted(demand("9"), bought(), demand("9"), bought()).fetch });
  await client.buyCredits(10, "one");
  await client.buyCredits(10, "one");

  assert.equal(signed, 2);
});

test("credits count as unspent only if no request of the call was sent", async () => {
  const refusedByHost = new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) });
  const lost = new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNRESET" }) });
  const cases: [Error[], boolean][] = [
    [[refusedByHost], false],
    [[lost], true],
    [[lost, refusedByHost], true],
  ];
  for (const [failures, mayBeCharged] of cases) {
    const { fetch } = scripted(...failures);
    const client = new Client("https://a", { credential: TOKEN, fetch, retriesMax: failures.length - 1 });
    const failure: unknown = await client.token("m").catch((each: unknown) => each);
    assert.ok(failure instanceof UnreachableError);

    assert.equal(failure.mayBeCharged, mayBeCharged);
    assert.equal(client.budget.spent, mayBeCharged ? 1 : 0);
  }
});

test("pages are asked for as they are needed, and cost what they hold", async () => {
  const page = (t: number[], nextCursor: string | null) =>
    answered({ token: "m", tf: "m1", candles: t.map((each) => ({ t: each })), nextCursor });
  const { fetch, sent } = scripted(page([3, 4], "a"), page([1, 2], "b"), page([], null));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  const times: number[] = [];
  for await (const candle of client.candles("m", "m1", { limit: 2 })) times.push(candle.t);

  assert.deepEqual(times, [3, 4, 1, 2]);
  assert.deepEqual(
    sent.map((each) => new URL(each.url).search),
    ["?limit=2&tf=m1", "?limit=2&tf=m1&cursor=a", "?limit=2&tf=m1&cursor=b"],
  );
  assert.equal(client.budget.spent, 2);
});

test("a page is asked for whole, for it costs the same", async () => {
  const { fetch, sent } = scripted(answered({ swaps: [], nextCursor: null }), answered({ candles: [], nextCursor: null }));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  await client.swaps("m").first();
  await client.candles("m", "m1").first();

  assert.deepEqual(
    sent.map((each) => new URL(each.url).searchParams.get("limit")),
    ["500", "1000"],
  );
});

test("a batch costs what it delivers", async () => {
  const { fetch, sent } = scripted(answered({ delivered: 1, results: [] }));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  await client.batch(["m", "n"]);

  assert.deepEqual(await sent[0]?.json(), { mints: ["m", "n"] });
  assert.equal(client.budget.spent, 1);
});

test("a stream makes whole reports of updates, and goes on where it was lost", async () => {
  const event = (name: string, data: object, id = "") =>
    `event: ${name}\n${id && `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`;
  const report = { token: "m", slot: 7, price: { usd: 1, sol: 2 }, indicators: { m1: { rsi: 5, ema9: 1 } } };
  const update = { token: "m", slot: 8, price: { usd: 3, sol: 4 }, indicators: { m1: { rsi: 6 } } };
  const minute = event("minute", { credits: 1, creditsRemaining: 4 });
  const first = minute + event("snapshot", report, "70") + event("update", update, "71");
  const empty = { reason: "insufficient_credits", message: "none", creditsReturned: 1 };
  const { fetch, sent } = scripted(new Response(first), new Response(minute + event("end", empty)));
  const client = new Client("https://api.example", { credential: TOKEN, fetch });
  const seen: [number, number, unknown][] = [];

  await assert.rejects(async () => {
    for await (const live of client.stream(["m"])) {
      seen.push([live.slot, live.report.price.usd, live.report.indicators.m1]);
    }
  }, UnpaidError);
  assert.deepEqual(seen, [
    [7, 1, { rsi: 5, ema9: 1 }],
    [8, 3, { rsi: 6, ema9: 1 }],
  ]);
  assert.deepEqual(
    sent.map((each) => each.headers.get("Last-Event-ID")),
    [null, "71"],
  );
  assert.equal(client.budget.spent, 1);
});

test("a stream that is lost before its first minute counts that minute as spent", async () => {
  const lost = new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNRESET" }) });
  const notSent = new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) });
  for (const [reply, spent] of [[lost, 1], [notSent, 0], [new Response(""), 1], [refused(404, "X"), 0]] as const) {
    const client = new Client("https://a", { credential: TOKEN, fetch: scripted(reply).fetch, patienceMs: 0 });
    const failure: unknown = await client.stream(["m"]).next().catch((each: unknown) => each);

    assert.equal(client.budget.spent, spent);
    if (failure instanceof UnreachableError) assert.equal(failure.mayBeCharged, spent > 0);
  }
});

test("an invalid URL or credential throws a TypeError", () => {
  assert.throws(() => new Client("api.example"), TypeError);
  assert.throws(() => new Client("https://a", { credential: "svc_app_1" }), TypeError);
});

test("a 502 throws NotNowError when the patience ends", async () => {
  const { fetch } = scripted(refused(502, "UNKNOWN"));

  await assert.rejects(new Client("https://a", { fetch, patienceMs: 0 }).bundles(), NotNowError);
});

test("a keypair is read as solana-keygen and wallets write it", () => {
  const bytes = [0, 0, ...new Array(62).keys()].map((each) => each % 256);
  // Of the same bytes, by the base58 of the Solana SDK.
  const base58 = "111niuWGYe9V2JM5dkcoeNbG32X2SXnKw1xYpfzEBb462N2RqWdnPAXhhVeeS7RFeR3KsxwJRwkQ5bERbHp4L";

  assert.deepEqual([...parseKeypair(` ${JSON.stringify(bytes)}\n`)], bytes);
  assert.deepEqual([...parseKeypair(`${base58}\n`)], bytes);
  const wrong = ["", "[]", "[1, 2", "{}", "[null]", base58.slice(1), `${base58}zz`, "0OIl", "z".repeat(1_000),
    JSON.stringify([...bytes.slice(1), 256]), JSON.stringify([...bytes.slice(1), 0.5])];
  for (const text of wrong) {
    assert.throws(() => parseKeypair(text), /^Error: expected a Solana keypair: a JSON list of 64 numbers, or base58$/);
  }
});

test("an answer that was paid for has its receipt", async () => {
  const told = (response: unknown) => ({ "PAYMENT-RESPONSE": btoa(JSON.stringify(response)) });
  const signed = { extensions: { "offer-receipt": { info: { receipt: { format: "jws", signature: "a.b.c" } } } } };
  const headers: Record<string, string>[] = [told(signed), told({ success: true }), { "PAYMENT-RESPONSE": "?" }, {}];
  const receipts: (string | null)[] = [];
  for (const each of headers) {
    const { fetch } = scripted(answered({ balance: 7 }, each));
    const client = new Client("https://api.example", { credential: TOKEN, fetch });
    const call = { name: "balance", method: "GET", path: "/v1/credits/balance", creditsMax: 0 } as const;
    receipts.push((await client.send(call)).receipt);
  }

  assert.deepEqual(receipts, ["a.b.c", null, null, null]);
});
