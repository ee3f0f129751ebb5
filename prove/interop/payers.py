"""Example programs of other clients that pay: versions of x402 clients, and clients of MPP."""

from typing import Final

# The arguments of each program are the address of the service and a mint.  The key of a wallet that
# has SOL, the payment token and USDC is in SOLANA_PRIVATE_KEY.
SIGNER: Final = """
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
const [origin, mint] = process.argv.slice(2);
const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const bundle = `${origin}/v1/credits/purchase?bundle=10`;
const token = `${origin}/v1/token/${mint}`;
"""
AXIOS: Final = (
    SIGNER
    + """
import axios from "axios";
import { wrapAxiosWithPayment, x402Client } from "@x402/axios";
import { ExactSvmScheme } from "@x402/svm/exact/client";

const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
const payer = new x402Client().register("solana:*", scheme);
const http = wrapAxiosWithPayment(axios.create(), payer);
const report = await http.get(token);
const bought = await http.post(bundle);
const lost = await http.get(`${origin}/v1/token/nope`).catch((why) => why.response);
console.log(report.status, bought.status, lost.data.error.code);
process.exit(0);
"""
)
OF_X402_SOLANA: Final = """
import { Keypair } from "@solana/web3.js";
import bs58 from "bs58";
import { createX402Client } from "x402-solana/client";

const [origin, mint] = process.argv.slice(2);
const secret = (bs58.default ?? bs58).decode(process.env.SOLANA_PRIVATE_KEY);
const key = Keypair.fromSecretKey(secret);
const wallet = {
  address: key.publicKey.toString(),
  signTransaction: async (transaction) => {
    transaction.sign([key]);
    return transaction;
  },
};
const rpcUrl = process.env.SOLANA_RPC_URL;
const buyer = (amount) => createX402Client({ wallet, network: "solana", rpcUrl, amount });
const report = await buyer(0n).fetch(`${origin}/v1/token/${mint}`);
const path = `${origin}/v1/credits/purchase?bundle=10`;
const bundle = await buyer(0n).fetch(path, { method: "POST" });
const lost = await buyer(0n).fetch(`${origin}/v1/token/nope`);
const capped = await buyer(1n).fetch(`${origin}/v1/token/${mint}`).catch((why) => why.message);
console.log(report.status, bundle.status, (await lost.json()).error.code, capped);
process.exit(0);
"""
OF_DEXTER: Final = """
import { wrapFetch } from "@dexterai/x402/client";

const [origin, mint] = process.argv.slice(2);
const rpcUrls = { "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": process.env.SOLANA_RPC_URL };
const options = { walletPrivateKey: process.env.SOLANA_PRIVATE_KEY, rpcUrls };
const pay = wrapFetch(fetch, options);
const report = await pay(`${origin}/v1/token/${mint}`);
const bundle = await pay(`${origin}/v1/credits/purchase?bundle=10`, { method: "POST" });
const lost = await pay(`${origin}/v1/token/nope`);
const careful = wrapFetch(fetch, { ...options, maxAmountAtomic: "1" });
const capped = await careful(`${origin}/v1/token/${mint}`).catch((why) => why.message);
console.log(report.status, bundle.status, (await lost.json()).error.code, capped);
process.exit(0);
"""
# The program replaces only the client's node of mainnet and its service for balances.
OF_AGENTCASH: Final = """
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const [origin, mint] = process.argv.slice(2);
writeFileSync("instead.mjs", `
const real = globalThis.fetch;
const network = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
globalThis.fetch = async (input, init) => {
  const url = String(input?.url ?? input);
  if (url.endsWith("agentcash.dev/api/balance")) {
    return Response.json({ balance: 100, network, paymentNetwork: "solana", chainId: 101 });
  }
  const isNode = url.startsWith("https://api.mainnet-beta.solana.com");
  return isNode ? real(process.env.SOLANA_RPC_URL, init) : real(input, init);
};
`);
const env = {
  ...process.env,
  HOME: process.cwd(),
  X402_SOLANA_PRIVATE_KEY: process.env.SOLANA_PRIVATE_KEY,
  X402_PRIVATE_KEY: `0x${"11".repeat(32)}`,
};
const program = "node_modules/agentcash/dist/esm/index.js";
const ask = (...words) => {
  const args = ["--import", "./instead.mjs", program, ...words, "--format", "json"];
  const options = { env, stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 26 };
  try {
    return JSON.parse(execFileSync("node", args, options));
  } catch (failure) {
    return JSON.parse(failure.stdout);
  }
};
const token = `${origin}/v1/token/${mint}`;
const found = ask("discover", origin);
const checked = ask("check", token);
const capped = ask("fetch", token, "--payment-network", "solana", "--max-amount", "0.0001");
const report = ask("fetch", token, "--payment-network", "solana");
const path = `${origin}/v1/credits/purchase?bundle=10`;
const bundle = ask("fetch", path, "-m", "POST", "--payment-network", "solana");
const lost = ask("fetch", `${origin}/v1/token/nope`);
console.log(
  found.data.endpoints.length > 5, checked.success, capped.error.cause,
  report.metadata.payment.success, bundle.data.data.credits, lost.error.details.body.error.code,
);
"""
OF_FAREMETER: Final = """
import { createLocalWallet } from "@faremeter/wallet-solana";
import { createPaymentHandler } from "@faremeter/payment-solana/exact";
import { wrap } from "@faremeter/fetch";
import bs58 from "bs58";

const [origin, mint] = process.argv.slice(2);
const wallet = await createLocalWallet(
  "mainnet-beta", bs58.decode(process.env.SOLANA_PRIVATE_KEY),
);
const asset = process.env.PAYMENT_ASSET;
const handler = createPaymentHandler(wallet, asset, process.env.SOLANA_RPC_URL);
const pay = wrap(fetch, { handlers: [handler] });
const report = await pay(`${origin}/v1/token/${mint}`);
const bundle = await pay(`${origin}/v1/credits/purchase?bundle=10`, { method: "POST" });
const lost = await pay(`${origin}/v1/token/nope`);
console.log(report.status, bundle.status, (await lost.json()).error.code);
process.exit(0);
"""
OF_MPP: Final = (
    SIGNER
    + """
import { Mppx, solana } from "@solana/mpp/client";

const method = solana.charge({ signer, rpcUrl: process.env.SOLANA_RPC_URL });
const payer = Mppx.create({ methods: [method], polyfill: false });
const report = await payer.fetch(token);
const bought = await payer.fetch(bundle, { method: "POST" });
const lost = await payer.fetch(`${origin}/v1/token/nope`);
const receipt = JSON.parse(atob(bought.headers.get("payment-receipt")));
console.log(report.status, bought.status, receipt.status, (await lost.json()).error.code);
process.exit(0);
"""
)
PYTHON_MPP: Final = """
import asyncio, os, sys
from mpp.client import Mpp
from mpp.methods import Method
from mpp.runtime import ClientMethod
from pydantic import BaseModel, ConfigDict
from solana_pay_kit._paycore.rpc import SolanaRpc
from solana_pay_kit.protocols.mpp.client.charge import build_credential_header
from solana_pay_kit.protocols.mpp.core.headers import parse_www_authenticate_all
from solders.keypair import Keypair

class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")

async def main():
    origin, mint = sys.argv[1:]
    signer = Keypair.from_base58_string(os.environ["SOLANA_PRIVATE_KEY"])
    rpc = SolanaRpc(os.environ["SOLANA_RPC_URL"])

    async def create(params):
        header = params.challenge.to_www_authenticate(params.challenge.realm)
        (challenge,) = parse_www_authenticate_all([header])
        return await build_credential_header(signer, rpc, challenge)

    charge = Method(
        name="solana", intent="charge", request_model=Anything, payload_model=Anything
    )
    async with Mpp(methods=[ClientMethod(method=charge, create_credential=create)]) as payer:
        report = await payer.fetch(f"{origin}/v1/token/{mint}")
        bundle = await payer.fetch(f"{origin}/v1/credits/purchase?bundle=10", method="POST")
        lost = await payer.fetch(f"{origin}/v1/token/nope")
        code = lost.json()["error"]["code"]
        print(report.status_code, bundle.status_code, "payment-receipt" in bundle.headers, code)

asyncio.run(main())
"""
PYTHON_PAY_KIT: Final = """
import asyncio, os, sys
import httpx
from solana_pay_kit._paycore.rpc import SolanaRpc
from solana_pay_kit.protocols.mpp.client.transport import PaymentTransport
from solders.keypair import Keypair

async def main():
    origin, mint = sys.argv[1:]
    signer = Keypair.from_base58_string(os.environ["SOLANA_PRIVATE_KEY"])
    transport = PaymentTransport(signer, SolanaRpc(os.environ["SOLANA_RPC_URL"]))
    headers = {"Accept-Payment": "solana/charge"}
    async with httpx.AsyncClient(transport=transport, headers=headers, timeout=60) as http:
        report = await http.get(f"{origin}/v1/token/{mint}")
        bundle = await http.post(f"{origin}/v1/credits/purchase?bundle=10")
        lost = await http.get(f"{origin}/v1/token/nope")
        print(report.status_code, bundle.status_code, lost.json()["error"]["code"])

asyncio.run(main())
"""
OLDER_PYTHON: Final = """
import os, sys, warnings
warnings.filterwarnings("ignore")
from x402 import x402ClientSync
from x402.http.clients.requests import x402_requests
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

origin, mint = sys.argv[1:]
payer = x402ClientSync()
signer = KeypairSigner.from_base58(os.environ["SOLANA_PRIVATE_KEY"])
register_exact_svm_client(payer, signer, rpc_url=os.environ["SOLANA_RPC_URL"])
http = x402_requests(payer)
report = http.get(f"{origin}/v1/token/{mint}", timeout=60)
bundle = http.post(f"{origin}/v1/credits/purchase?bundle=10", timeout=60)
lost = http.get(f"{origin}/v1/token/nope", timeout=60)
print(report.status_code, bundle.status_code, lost.json()["error"]["code"])
"""

RECEIPT: Final = """
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { extractReceiptFromResponse, verifyReceiptSignatureJWS } from "@x402/extensions";

const [origin, mint] = process.argv.slice(2);
const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
const payer = new x402Client().register("solana:*", scheme);
payer.setSpendControls?.({ allowedAssets: true });
const answer = await wrapFetchWithPayment(fetch, payer)(`${origin}/v1/token/${mint}`);
const claims = await verifyReceiptSignatureJWS(extractReceiptFromResponse(answer));
console.log(answer.status, claims.payer === signer.address, claims.resourceUrl.endsWith(mint));
process.exit(0);
"""
SIGN_IN: Final = """
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { wrapFetchWithSIWx } from "@x402/extensions/sign-in-with-x";

const [origin, mint] = process.argv.slice(2);
const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
const payer = new x402Client().register("solana:*", scheme);
payer.setSpendControls?.({ allowedAssets: true });
const pay = wrapFetchWithPayment(fetch, payer);
const bought = await pay(`${origin}/v1/credits/purchase?bundle=10`, { method: "POST" });
const answer = await wrapFetchWithSIWx(fetch, signer)(`${origin}/v1/token/${mint}`);
console.log(bought.status, answer.status, answer.headers.has("x-credits-remaining"));
process.exit(0);
"""
OF_VERSION_1: Final = """
import { createSigner, wrapFetchWithPayment } from "x402-fetch";

const [origin, mint] = process.argv.slice(2);
const signer = await createSigner("solana", process.env.SOLANA_PRIVATE_KEY);
const pay = wrapFetchWithPayment(fetch, signer);
try {
  console.log((await pay(`${origin}/v1/token/${mint}`)).status);
} catch (failure) {
  console.log(failure.message.replaceAll(/\\s+/g, " "));
}
process.exit(0);
"""
# The TypeScript client of this checkout, as the service delivers it.
OWN_CLIENT: Final = """
import { createKeyPairSignerFromBytes } from "@solana/kit";
import { x402Client, x402HTTPClient } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { Client, Payer, WalletSignIn, keypairWallet, parseKeypair } from "mintscope-client";
import { WebSocket } from "ws";

const [origin, mint] = process.argv.slice(2);
const keypair = parseKeypair(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(keypair);
const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
const official = new x402Client().register("solana:*", scheme);
official.setSpendControls?.({ allowedAssets: true });
const http = new x402HTTPClient(official);
const { network, asset, payTo } = (await (await fetch(`${origin}/.well-known/x402`)).json())
  .payment[0];
const pin = { network, asset, payTo, atomsPerPayment: 10n ** 6n, atomsInAll: 10n ** 7n };
const payer = new Payer(pin, {
  async sign(demand, offer) {
    const payload = await http.createPaymentPayload({ ...demand, accepts: [offer] });
    return http.encodePaymentSignatureHeader(payload)["PAYMENT-SIGNATURE"];
  },
});
const buyer = new Client(origin, { payer });
const paid = await buyer.token(mint);
const bought = await buyer.buyCredits(10);
const signIn = new WalletSignIn(await keypairWallet(keypair));
const signed = await new Client(origin, { signIn }).token(mint);
const client = new Client(origin, { credential: bought.token, webSocket: WebSocket });
let streamed;
for await (const live of client.stream([mint])) {
  streamed = live.report.token;
  break;
}
const code = await client.token("nope").catch((failure) => failure.code);
console.log(paid.token === mint, signed.token === mint, streamed === mint, code, payer.spent > 0n);
process.exit(0);
"""
