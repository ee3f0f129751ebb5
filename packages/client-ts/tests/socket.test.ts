/** Streams by WebSocket, at a socket that says what it is given. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { Client, CreditBudget, OverBudgetError, UnpaidError, UnreachableError, WrongCallError } from "../src/index.ts";

const TOKEN = `svc_credit_${"0".repeat(64)}`;
const REPORT = { token: "m", slot: 7, price: { usd: 1, sol: 2 }, indicators: { m1: { rsi: 5, ema9: 1 } } };
const UPDATE = { token: "m", slot: 8, price: { usd: 3, sol: 4 }, indicators: { m1: { rsi: 6 } } };
const MINUTE = { type: "minute", retryMs: 1, data: { credits: 1, creditsRemaining: 4 } };
const EMPTY = { reason: "insufficient_credits", message: "none", creditsReturned: 1 };

const STEP_MS = 250;

/** A WebSocket; each one that is opened sends the next of `conversations`, then closes. */
function sockets(...conversations: (object | string)[][]) {
  const asked: { url: string; first: unknown }[] = [];
  class Socket extends EventTarget {
    isClosed = false;
    readonly #url: string;
    constructor(url: URL) {
      super();
      this.#url = String(url);
      setTimeout(() => this.dispatchEvent(new Event("open")));
    }
    send(first: string): void {
      asked.push({ url: this.#url, first: JSON.parse(first) });
      for (const each of conversations.shift() ?? []) {
        const data = typeof each === "string" ? each : JSON.stringify(each);
        this.dispatchEvent(new MessageEvent("message", { data }));
      }
      this.dispatchEvent(new Event("close"));
    }
    close(): void {
      this.isClosed = true;
    }
  }
  return { webSocket: Socket as unknown as typeof WebSocket, asked };
}

/** Stop the time; return a function that advances it by `ms` milliseconds. */
function clock(t: TestContext): (ms: number) => Promise<void> {
  const { now } = performance;
  let nowMs = 0;
  performance.now = () => nowMs;
  t.after(() => {
    performance.now = now;
  });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  return async (ms) => {
    await setImmediate(); // lets the client continue
    for (const until = nowMs + ms; nowMs < until; ) {
      nowMs += STEP_MS;
      t.mock.timers.tick(STEP_MS);
      await setImmediate();
    }
  };
}

async function seen(client: Client): Promise<[number, number, unknown][]> {
  const reports: [number, number, unknown][] = [];
  for await (const live of client.stream(["m", "n"], { partial: true })) {
    reports.push([live.slot, live.report.price.usd, live.report.indicators.m1]);
    if (reports.length === 3) break;
  }
  return reports;
}

test("messages make whole reports, and go on where they were lost", async () => {
  const first = [MINUTE, { type: "snapshot", id: "70", data: REPORT }, { type: "update", id: "71", data: UPDATE }];
  const { webSocket, asked } = sockets(first, [MINUTE, { type: "snapshot", id: "72", data: REPORT }]);
  const client = new Client("https://api.example", { credential: TOKEN, webSocket });

  assert.deepEqual(await seen(client), [
    [7, 1, { rsi: 5, ema9: 1 }],
    [8, 3, { rsi: 6, ema9: 1 }],
    [7, 1, { rsi: 5, ema9: 1 }],
  ]);
  assert.deepEqual(asked, [
    { url: "wss://api.example/v1/stream?mints=m%2Cn&partial=true", first: { type: "auth", token: TOKEN } },
    {
      url: "wss://api.example/v1/stream?mints=m%2Cn&partial=true",
      first: { type: "auth", token: TOKEN, lastEventId: "71" },
    },
  ]);
});

test("a socket that never opens costs no credits", async () => {
  class Closed extends EventTarget {
    constructor() {
      super();
      setTimeout(() => this.dispatchEvent(new Event("close")));
    }
    close(): void {}
  }
  const webSocket = Closed as unknown as typeof WebSocket;
  const client = new Client("http://a", { credential: TOKEN, webSocket, patienceMs: 0 });
  const failure: unknown = await seen(client).catch((each: unknown) => each);

  assert.ok(failure instanceof UnreachableError);
  assert.equal(failure.mayBeCharged, false);
  assert.equal(client.budget.spent, 0);
});

test("an end and a refusal are thrown by their codes", async () => {
  const ended = sockets([MINUTE, { type: "end", data: EMPTY }]);
  const client = new Client("http://a", { credential: TOKEN, webSocket: ended.webSocket });
  await assert.rejects(seen(client), UnpaidError);
  assert.equal(client.budget.spent, 0);

  const error = { code: "INVALID_TOKEN_ADDRESS", message: "no mint" };
  const refused = sockets([{ type: "error", status: 400, error }]);
  await assert.rejects(
    seen(new Client("http://a", { credential: TOKEN, webSocket: refused.webSocket })),
    (failure: unknown) => failure instanceof WrongCallError && failure.code === "INVALID_TOKEN_ADDRESS",
  );
});

test("one that stays away is given up, and one without room in the budget is left", async () => {
  const gone = sockets([]);
  await assert.rejects(
    seen(new Client("http://a", { credential: TOKEN, webSocket: gone.webSocket, patienceMs: 0 })),
    UnreachableError,
  );

  const budget = new CreditBudget({ creditsInAll: 1 });
  const { webSocket, asked } = sockets();
  await assert.rejects(seen(new Client("http://a", { credential: TOKEN, webSocket, budget })), OverBudgetError);
  assert.equal(asked.length, 0);
});

test("a connection that is lost in a quiet time is opened again", async () => {
  const { now } = performance;
  let aheadMs = 0;
  performance.now = () => now.call(performance) + aheadMs;
  try {
    const { webSocket, asked } = sockets([MINUTE, { type: "snapshot", data: REPORT }], [
      MINUTE,
      { type: "snapshot", data: REPORT },
    ]);
    const client = new Client("http://a", { credential: TOKEN, webSocket });
    for await (const live of client.stream(["m"])) {
      assert.equal(live.slot, 7);
      aheadMs = 45_000; // no event came for longer than the patience, which begins with the loss
      if (asked.length === 2) break;
    }
  } finally {
    performance.now = now;
  }
});

for (const [livedMs, waitsMs] of [
  [44_750, [500, 1_000, 2_000, 4_000, 8_000, 8_000]],
  [45_000, [500, 500, 500, 500, 500, 500]],
] as const) {
  test(`connections that are lost ${livedMs} ms after their first minute are opened again after ${waitsMs} ms`, async (t) => {
    const advance = clock(t);
    t.mock.method(Math, "random", () => 1);
    const openings: number[] = [];
    class Cut extends EventTarget {
      constructor() {
        super();
        openings.push(performance.now());
        queueMicrotask(() => this.dispatchEvent(new Event("open")));
      }
      send(): void {
        this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(MINUTE) }));
        setTimeout(() => this.close(), livedMs);
      }
      close(): void {
        this.dispatchEvent(new Event("close"));
      }
    }
    const webSocket = Cut as unknown as typeof WebSocket;
    void new Client("http://a", { credential: TOKEN, webSocket }).stream(["m"]).next();
    await advance(waitsMs.length * (livedMs + 8_000));

    const gaps = waitsMs.map((_, at) => (openings[at + 1] ?? 0) - (openings[at] ?? 0) - livedMs);
    assert.deepEqual(gaps, waitsMs);
  });
}

/** A WebSocket of a service that charges a minute each 60 s; `credits` is the number of minutes. */
function charging() {
  const charged = { credits: 0 };
  class Socket extends EventTarget {
    #next: ReturnType<typeof setTimeout> | undefined;
    constructor() {
      super();
      queueMicrotask(() => this.dispatchEvent(new Event("open")));
    }
    #say(message: object): void {
      this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(message) }));
    }
    send(): void {
      this.#begin("snapshot");
    }
    #begin(type: string): void {
      charged.credits += 1;
      this.#say(MINUTE);
      this.#say({ type, data: type === "snapshot" ? REPORT : UPDATE });
      this.#next = setTimeout(() => this.#begin("update"), 60_000);
    }
    close(): void {
      clearTimeout(this.#next);
      this.dispatchEvent(new Event("close"));
    }
  }
  return { webSocket: Socket as unknown as typeof WebSocket, charged };
}

for (const creditsInAll of [1, 2, 3]) {
  test(`a stream costs at most its budget of ${creditsInAll} credits while the consumer is busy`, async (t) => {
    const advance = clock(t);
    const { webSocket, charged } = charging();
    const budget = new CreditBudget({ creditsInAll });
    const stream = new Client("http://a", { credential: TOKEN, webSocket, budget }).stream(["m"]);
    await stream.next();
    await advance(600_000);

    assert.equal(charged.credits, creditsInAll);
    for (let count = 1; count < creditsInAll; count++) assert.equal((await stream.next()).value?.slot, 8);
    await assert.rejects(stream.next(), OverBudgetError);
    assert.equal(budget.spent, creditsInAll);
  });
}

test("a stream ends for its budget even if the timer is early", async (t) => {
  const advance = clock(t);
  const exact = performance.now;
  performance.now = () => exact() * 0.99;
  const { webSocket, charged } = charging();
  const budget = new CreditBudget({ creditsInAll: 1 });
  const stream = new Client("http://a", { credential: TOKEN, webSocket, budget, patienceMs: 0 }).stream(["m"]);
  await stream.next();
  const ended = assert.rejects(stream.next(), OverBudgetError);
  await advance(60_000);

  await ended;
  assert.equal(charged.credits, 1);
});

for (const [creditsInAll, readsMs] of [
  [1, [30_000, 39_000]],
  [2, [30_000, 39_000, 58_000, 100_000]],
] as const) {
  test(`a stream of events with ${creditsInAll} credits ends if its consumer is busy after ${readsMs} ms`, async (t) => {
    const advance = clock(t);
    let charged = 0;
    const fetch = (_: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
      const timers: ReturnType<typeof setTimeout>[] = [];
      const start = (controller: ReadableStreamDefaultController): void => {
        const say = (name: string, data: object): void => {
          controller.enqueue(new TextEncoder().encode(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`));
        };
        const begin = (): void => {
          charged += 1;
          say("minute", MINUTE.data);
          say("snapshot", REPORT);
          timers.push(setTimeout(begin, 60_000));
        };
        begin();
        for (const atMs of [30_000, 39_000, 58_000]) timers.push(setTimeout(() => say("update", UPDATE), atMs));
        init?.signal?.addEventListener("abort", () => {
          timers.forEach(clearTimeout);
          controller.error(init.signal?.reason);
        });
      };
      return Promise.resolve(new Response(new ReadableStream({ start })));
    };
    const budget = new CreditBudget({ creditsInAll });
    const stream = new Client("http://a", { credential: TOKEN, fetch, budget }).stream(["m"]);
    await stream.next();
    for (const readMs of readsMs) {
      await advance(readMs - STEP_MS - performance.now());
      const report = stream.next();
      await advance(STEP_MS);
      await report;
    }
    await advance(600_000);

    assert.equal(charged, creditsInAll);
    await assert.rejects(stream.next(), OverBudgetError);
    assert.equal(budget.spent, creditsInAll);
  });
}
