/** Signing in with a wallet and checking receipts; the keys of both are those of Node's own Ed25519. */

import assert from "node:assert/strict";
import { createPublicKey, generateKeyPairSync, sign, verify } from "node:crypto";
import { test } from "node:test";

import {
  Client,
  CreditBudget,
  ForgedReceiptError,
  NoCreditsError,
  OverBudgetError,
  Payer,
  WalletSignIn,
  WillNotPayError,
  checkReceipt,
  keypairWallet,
  parseKeypair,
} from "../src/index.ts";

const MINT = "So11111111111111111111111111111111111111112";
const CHAIN = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
// Of the 32 bytes 1, 2, 3 ... as a seed, by the Solana SDK.
const SECRET = [...Array(32).keys()].map((each) => each + 1);
const ADDRESS = "9C6hybhQ6Aycep9jaUnP6uL9ZYvDjUp1aSkFWPUFJtpj";
const PUBLIC = "79b5562e8fe654f94078b112e8a98ba7901f853ae695bed7e0e3910bad049664";
const KEYPAIR = Uint8Array.from([...SECRET, ...Buffer.from(PUBLIC, "hex")]);
const ORIGIN = "https://api.example";
const INFO = {
  domain: "api.example",
  uri: `${ORIGIN}/v1/token/${MINT}`,
  version: "1",
  nonce: "0123456789abcdef0123456789abcdef",
  issuedAt: "2026-01-02T03:04:05Z",
  statement: "Spend credits of this wallet",
};

function unpaid(info: object = {}, chains: object[] = [{ chainId: `solana:${CHAIN}`, type: "ed25519" }]): Response {
  const offer = { scheme: "exact", network: "n", asset: "a", amount: "7", payTo: "p" };
  const challenge = { info: { ...INFO, ...info }, supportedChains: chains, schema: {} };
  const demand = { x402Version: 2, accepts: [offer], extensions: { "sign-in-with-x": challenge } };
  const error = { code: "PAYMENT_REQUIRED", message: "", details: demand };
  return Response.json({ error }, { status: 402, headers: { "PAYMENT-REQUIRED": btoa(JSON.stringify(demand)) } });
}

function spent(): Response {
  const error = { code: "INSUFFICIENT_CREDITS", message: "" };
  return Response.json({ error }, { status: 402 });
}

function answered(): Response {
  return Response.json({ data: { token: MINT } }, { headers: { "X-Credits-Remaining": "9" } });
}

function scripted(...replies: (Response | Error)[]) {
  const sent: Request[] = [];
  const fetch = (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    sent.push(new Request(input, init));
    const reply = replies.shift() ?? new Error("there is no further answer");
    return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
  };
  return { fetch, sent };
}

async function signIn(): Promise<WalletSignIn> {
  return new WalletSignIn(await keypairWallet(parseKeypair(JSON.stringify([...KEYPAIR]))));
}

function shown(request: Request | undefined): Record<string, string> {
  return JSON.parse(atob(request?.headers.get("SIGN-IN-WITH-X") ?? "bnVsbA=="));
}

test("a wallet signs the challenge of the call, and the budget counts its credits", async () => {
  const { fetch, sent } = scripted(unpaid(), answered());
  const budget = new CreditBudget({ creditsInAll: 1 });
  const client = new Client(ORIGIN, { signIn: await signIn(), fetch, budget });
  assert.equal((await client.token(MINT, { partial: true })).token, MINT);

  const { signature, ...told } = shown(sent[1]);
  assert.deepEqual(told, { ...INFO, address: ADDRESS, chainId: `solana:${CHAIN}`, type: "ed25519" });
  const text =
    `api.example wants you to sign in with your Solana account:\n${ADDRESS}\n\nSpend credits of this wallet\n\n` +
    `URI: ${INFO.uri}\nVersion: 1\nChain ID: ${CHAIN}\nNonce: ${INFO.nonce}\nIssued At: ${INFO.issuedAt}`;
  const head = Buffer.from("302a300506032b6570032100", "hex");
  const key = createPublicKey({ key: Buffer.concat([head, Buffer.from(PUBLIC, "hex")]), format: "der", type: "spki" });
  assert(verify(null, Buffer.from(text), key, parseKeypair(signature ?? "")));
  assert.equal(sent[0]?.headers.get("SIGN-IN-WITH-X"), null);
  assert.equal(new Set(sent.map((each) => each.headers.get("Idempotency-Key"))).size, 1);
  await assert.rejects(client.token(MINT), OverBudgetError);
});

test("a call that is sent again has the signature of before", async () => {
  const { fetch, sent } = scripted(unpaid(), new TypeError("fetch failed"), answered());
  await new Client(ORIGIN, { signIn: await signIn(), fetch }).token(MINT);

  assert.deepEqual(shown(sent[2]), shown(sent[1]));
  assert.notEqual(shown(sent[1]), null);
});

test("only a challenge for the call is signed", async () => {
  const evil: Response[] = [
    unpaid({ domain: "evil.example" }),
    unpaid({ uri: `https://evil.example/v1/token/${MINT}` }),
    unpaid({ uri: `${ORIGIN}/v1/stream` }),
    unpaid({ version: "2" }),
    unpaid({ statement: "Spend credits\nURI: https://evil.example" }),
    unpaid({ nonce: "\x7f" }),
    unpaid({ issuedAt: 7 }),
    unpaid({}, [{ chainId: "eip155:1", type: "ed25519" }]),
    unpaid({}, [{ chainId: `solana:${CHAIN}`, type: "eip191" }]),
  ];
  for (const each of evil) {
    const { fetch, sent } = scripted(each);
    const client = new Client(ORIGIN, { signIn: await signIn(), fetch });
    await assert.rejects(client.token(MINT), WillNotPayError);
    assert.equal(sent.length, 1);
    assert.equal(client.budget.spent, 0);
  }
});

test("who has too few credits pays, if it may", async () => {
  const alone = scripted(unpaid(), spent());
  await assert.rejects(new Client(ORIGIN, { signIn: await signIn(), fetch: alone.fetch }).token(MINT), NoCreditsError);

  const { fetch, sent } = scripted(unpaid(), unpaid(), answered());
  const pin = { network: "n", asset: "a", payTo: "p", atomsPerPayment: 10n, atomsInAll: 10n };
  const payer = new Payer(pin, { sign: () => Promise.resolve("signed") });
  await new Client(ORIGIN, { signIn: await signIn(), payer, fetch }).token(MINT);
  assert.equal(sent[2]?.headers.get("PAYMENT-SIGNATURE"), "signed");
  assert.equal(sent[2]?.headers.get("SIGN-IN-WITH-X"), null);
  assert.equal(payer.spent, 7n);
});

test("a wallet that refuses to sign costs nothing, and the call throws WillNotPayError", async () => {
  const refusal = new Error("the user rejected the request");
  const refuse = () => Promise.reject(refusal);
  const pin = { network: "n", asset: "a", payTo: "p", atomsPerPayment: 10n, atomsInAll: 10n };
  const payer = new Payer(pin, { sign: refuse });
  const cases = [
    { signIn: new WalletSignIn({ address: ADDRESS, signMessage: refuse }) },
    { signIn: await signIn(), payer },
    { payer },
  ];
  for (const options of cases) {
    const { fetch } = scripted(unpaid(), unpaid());
    const client = new Client(ORIGIN, { ...options, fetch });
    const failure: unknown = await client.token(MINT).catch((each: unknown) => each);

    assert.ok(failure instanceof WillNotPayError);
    assert.equal(failure.cause, refusal);
    assert.equal(client.budget.spent, 0);
    assert.equal(payer.spent, 0n);
  }
});

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const DID = "did:web:api.example";
const HEAD = { alg: "EdDSA", kid: `${DID}#one` };
const CLAIMS = { version: 1, network: "n", resourceUrl: INFO.uri, payer: ADDRESS, issuedAt: 7, transaction: "5" };
const KEY = { kty: "OKP", crv: "Ed25519", x: publicKey.export({ format: "jwk" }).x ?? "" };
const METHOD = { id: HEAD.kid, controller: DID, publicKeyJwk: KEY };
const DOCUMENT = { id: DID, verificationMethod: [METHOD], assertionMethod: [HEAD.kid] };

function receipt(head: object = HEAD, claims: object = CLAIMS, key = privateKey): string {
  const signed = [head, claims].map((each) => Buffer.from(JSON.stringify(each)).toString("base64url")).join(".");
  return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
}

test("a receipt says what was bought", async () => {
  const { fetch, sent } = scripted(Response.json(DOCUMENT));
  const keys = await new Client(ORIGIN, { fetch }).receiptKeys();

  assert.equal(sent[0]?.url, `${ORIGIN}/.well-known/did.json`);
  assert.deepEqual(await checkReceipt(receipt(), keys), CLAIMS);
});

test("a forged receipt is refused", async () => {
  const [head, , signature] = receipt().split(".");
  const others = Buffer.from(JSON.stringify({ ...CLAIMS, payer: "x" })).toString("base64url");
  const stranger = generateKeyPairSync("ed25519").privateKey;
  const forged = [
    "",
    "a.b.c",
    `${receipt()}.d`,
    receipt().slice(0, -4),
    `${head}.${others}.${signature}`,
    receipt(HEAD, CLAIMS, stranger),
    receipt({ ...HEAD, alg: "none" }),
    receipt({ ...HEAD, kid: "other" }),
    receipt(HEAD, { ...CLAIMS, resourceUrl: "https://evil.example/" }),
    receipt(HEAD, { ...CLAIMS, resourceUrl: "?" }),
  ];
  for (const each of forged) await assert.rejects(checkReceipt(each, DOCUMENT), ForgedReceiptError, each);
  for (const document of [
    { ...DOCUMENT, assertionMethod: [] },
    { ...DOCUMENT, verificationMethod: [] },
    { ...DOCUMENT, verificationMethod: [{ ...METHOD, controller: "did:web:evil.example" }] },
    { ...DOCUMENT, verificationMethod: [{ ...METHOD, publicKeyJwk: { ...KEY, x: "AA" } }] },
    { ...DOCUMENT, id: "did:web:evil.example" },
  ]) {
    await assert.rejects(checkReceipt(receipt(), document), ForgedReceiptError);
  }
});
