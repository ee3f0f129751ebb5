/** Calls of accounts, how often a call is sent again, and what is refused before it is sent. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, KeyCapError, NoCreditsError, NotNowError, UnpaidError } from "../src/index.ts";

interface Sent {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: unknown;
}

function recording(status: number, body: unknown, headers: Record<string, string> = {}): [Sent[], typeof fetch] {
  const sent: Sent[] = [];
  const answer: typeof fetch = async (url, options) => {
    const text = options?.body;
    sent.push({
      method: options?.method ?? "GET",
      url: String(url),
      headers: new Headers(options?.headers),
      body: typeof text === "string" ? JSON.parse(text) : null,
    });
    return new Response(JSON.stringify(body), { status, headers });
  };
  return [sent, answer];
}

test("a key is rotated, with a key for a lost answer", async () => {
  const [sent, fetch] = recording(201, { data: { apiKey: "new" } });
  const client = new Client("http://api.example", { fetch });

  assert.equal((await client.rotateKey("24h")).apiKey, "new");
  assert.deepEqual([sent[0]?.method, sent[0]?.url], ["POST", "http://api.example/v1/me/key/rotate"]);
  assert.deepEqual(sent[0]?.body, { overlap: "24h" });
  assert.ok(sent[0]?.headers.has("Idempotency-Key"));
});

test("an answer without an envelope is read whole", async () => {
  const [sent, fetch] = recording(201, { success: true, signupId: 7, applicationSecret: "s" });
  const client = new Client("http://api.example", { fetch });
  const made = await client.signUp({ email: "a@example.org", userType: "trader", motivation: "m", scopes: ["trade:write"] });

  assert.equal(made.signupId, 7);
  assert.deepEqual((sent[0]?.body as { scopes: string[] }).scopes, ["trade:write"]);
});

test("a raw response has status and headers", async () => {
  const [, fetch] = recording(200, { data: { groups: [] } }, { "X-Request-Id": "r" });
  const answer = await new Client("http://api.example", { fetch }).withRawResponse.watchlists();

  assert.deepEqual([answer.status, answer.data.groups, answer.headers.get("x-request-id")], [200, [], "r"]);
});

test("a raw balance has the data and the status", async () => {
  const [, fetch] = recording(200, { data: { balance: 7 } });
  const answer = await new Client("http://api.example", { fetch }).withRawResponse.balance();

  assert.deepEqual([answer.status, answer.data.balance], [200, 7]);
});

test("a call is sent again as often as it may", async () => {
  const [sent, fetch] = recording(503, { error: { code: "SERVICE_UNAVAILABLE", message: "." } });
  const client = new Client("http://api.example", { fetch, retriesMax: 1 });

  await assert.rejects(client.bundles(), NotNowError);
  assert.equal(sent.length, 2);
});

test("a signal on a condition is made", async () => {
  const [sent, fetch] = recording(200, { data: { signalId: 7 } });
  const signal = { name: "a", mint: "m", kind: "condition", where: "rsi_h1 < 30" } as const;
  await new Client("http://api.example", { fetch }).makeSignal(signal);

  assert.deepEqual(sent[0]?.body, signal);
});

test("an unknown field is refused before anything is sent", async () => {
  const [sent, fetch] = recording(200, { data: {} });
  const client = new Client("http://api.example", { fetch });

  await assert.rejects(client.token("mint", { candels: "closed" } as never), TypeError);
  assert.throws(() => client.candles("mint", "m1", { since: 3 } as never), TypeError);
  await assert.rejects(client.changeSignal(7, { active: false } as never), TypeError);
  await assert.rejects(client.changeSignal(7, { direction: "up" } as never), TypeError);
  await assert.rejects(client.changeSignal(7, { comparedWith: "price.usd" } as never), TypeError);
  assert.equal(sent.length, 0);
});

test("a Date goes as Unix seconds", async () => {
  const [sent, fetch] = recording(200, { data: { candles: [], nextCursor: null } });
  await new Client("http://api.example", { fetch }).candles("mint", "m1", { from: new Date(1_763_460_000_500) }).first();

  assert.equal(new URL(sent[0]?.url ?? "").searchParams.get("from"), "1763460000");
});

test("a Date goes as Unix seconds in a backtest, of one token and of several", async () => {
  const [sent, fetch] = recording(200, { data: {} });
  const client = new Client("http://api.example", { fetch });
  const asked = { from: new Date(1_763_460_000_500), to: 1_763_470_000 };
  await client.backtest("mint", "price > 1", asked);
  await client.backtestTokens(["mint"], "price > 1", asked);

  assert.equal(new URL(sent[0]?.url ?? "").searchParams.get("from"), "1763460000");
  assert.deepEqual(sent[1]?.body, { mints: ["mint"], where: "price > 1", from: 1_763_460_000, to: 1_763_470_000 });
});

test("an error is of the class of its code, and of its group", async () => {
  for (const [code, kind] of [["INSUFFICIENT_CREDITS", NoCreditsError], ["KEY_CAP_REACHED", KeyCapError], ["NEWER", UnpaidError]] as const) {
    const [, fetch] = recording(402, { error: { code, message: "." } });
    await assert.rejects(new Client("http://api.example", { fetch }).balance(), (failure) => {
      assert.ok(failure instanceof kind && failure instanceof UnpaidError);
      return true;
    });
  }
});
