/** At a running service: MINTSCOPE_URL, and MINTSCOPE_CREDENTIAL with three credits. */

import assert from "node:assert/strict";
import { env } from "node:process";
import { test } from "node:test";

import { Client, NothingThereError, UnpaidError, WrongCallError } from "../src/index.ts";

const WRAPPED_SOL = "So11111111111111111111111111111111111111112";
const UNTRACKED = "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB";
const url = env["MINTSCOPE_URL"] ?? "http://127.0.0.1:8402";
const credential = env["MINTSCOPE_CREDENTIAL"] ?? "";

test("reports are read until the credits are spent", async () => {
  const client = new Client(url, { credential });

  const report = await client.token(WRAPPED_SOL);
  assert.equal(report.token, WRAPPED_SOL);
  assert.equal(typeof report.price.usd, "number");
  assert.equal(typeof report.indicators.m5.rsi, "number");
  assert.equal(await client.balance(), 2);
  await assert.rejects(client.token(UNTRACKED), NothingThereError);
  await assert.rejects(client.token("no mint at all"), WrongCallError);
  await client.token(WRAPPED_SOL);
  await client.token(WRAPPED_SOL);
  await assert.rejects(client.token(WRAPPED_SOL), UnpaidError);
  assert.equal((await client.history()).spent, 3);
});
