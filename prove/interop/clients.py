"""The clients: their packages, their programs, and their expected output."""

from dataclasses import dataclass
from typing import Final

PAY: Final = """
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";

const [origin, mint] = process.argv.slice(2);
const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
const payer = new x402Client().register("solana:*", scheme);
payer.setSpendControls?.({ allowedAssets: true });
const pay = wrapFetchWithPayment(fetch, payer);
const report = await pay(`${origin}/v1/token/${mint}`);
const bundle = await pay(`${origin}/v1/credits/purchase?bundle=10`, { method: "POST" });
console.log(report.status, bundle.status);
process.exit(0);
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
MCP: Final = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [origin, mint] = process.argv.slice(2);
const client = new Client({ name: "interop", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(`${origin}/mcp`)));
const { tools } = await client.listTools();
const lost = await client.callTool({ name: "get_token", arguments: { mint: "nope" } });
const unpaid = await client.callTool({ name: "get_token", arguments: { mint } });
const free = await client.callTool({ name: "try_token", arguments: { mint } });
const terms = JSON.parse(unpaid.content[0].text);
console.log(tools.length > 5, lost.isError, terms.x402Version, free.isError ?? false);
process.exit(0);
"""
EVENTS: Final = """
import { EventSource } from "eventsource";

const [origin, mint] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.MINTSCOPE_CREDENTIAL}` };
const source = new EventSource(`${origin}/v1/stream?mints=${mint}`, {
  fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...headers } }),
});
source.addEventListener("snapshot", (event) => {
  console.log(JSON.parse(event.data).token === mint);
  process.exit(0);
});
"""
PYTHON_PAYS: Final = """
import asyncio, os, sys, warnings
warnings.filterwarnings("ignore")
from x402 import x402Client
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

async def main():
    origin, mint = sys.argv[1:]
    payer = x402Client()
    signer = KeypairSigner.from_base58(os.environ["SOLANA_PRIVATE_KEY"])
    register_exact_svm_client(payer, signer, rpc_url=os.environ["SOLANA_RPC_URL"])
    payer.set_spend_controls({"allowed_assets": [{
        "network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "asset": os.environ["PAYMENT_ASSET"], "max_amount_per_payment": "1000000",
    }]})
    async with x402HttpxClient(payer, base_url=origin, timeout=60) as http:
        report = await http.get(f"/v1/token/{mint}")
        bundle = await http.post("/v1/credits/purchase?bundle=10")
        print(report.status_code, bundle.status_code)

asyncio.run(main())
"""
PYTHON_MCP: Final = """
import asyncio, json, sys
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    origin, mint = sys.argv[1:]
    async with Client(streamable_http_client(f"{origin}/mcp")) as client:
        tools = (await client.list_tools()).tools
        lost = await client.call_tool("get_token", {"mint": "nope"})
        unpaid = await client.call_tool("get_token", {"mint": mint})
        terms = json.loads(unpaid.content[0].text)
        print(len(tools) > 5, lost.is_error, terms["x402Version"])

asyncio.run(main())
"""
THROUGH_REMOTE: Final = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [origin, mint] = process.argv.slice(2);
const args = ["mcp-remote", `${origin}/mcp`, "--allow-http", "--transport", "http-only"];
const client = new Client({ name: "interop", version: "1" });
await client.connect(new StdioClientTransport({ command: "npx", args, stderr: "ignore" }));
const { tools } = await client.listTools();
const lost = await client.callTool({ name: "get_token", arguments: { mint: "nope" } });
const unpaid = await client.callTool({ name: "get_token", arguments: { mint } });
const terms = JSON.parse(unpaid.content[0].text);
console.log(tools.length > 5, lost.isError, terms.x402Version);
process.exit(0);
"""
INSPECTED: Final = """
import { execFileSync } from "node:child_process";

const [origin, mint] = process.argv.slice(2);
const ask = (...words) => {
  const args = ["mcp-inspector", "--cli", `${origin}/mcp`, "--transport", "http", ...words];
  try {
    return JSON.parse(execFileSync("npx", args, { stdio: ["ignore", "pipe", "pipe"] }));
  } catch (failure) {
    return JSON.parse(failure.stdout);
  }
};
const call = (name) => ["--method", "tools/call", "--tool-name", name, "--tool-arg"];
const { tools } = ask("--method", "tools/list");
const lost = ask(...call("get_token"), "mint=nope");
const free = ask(...call("try_token"), `mint=${mint}`);
console.log(tools.length > 5, lost.isError, free.isError ?? false);
"""
FETCHED: Final = """
import createClient from "openapi-fetch";

const [origin, mint] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.MINTSCOPE_CREDENTIAL}` };
const client = createClient({ baseUrl: origin, headers });
const query = { tf: "m5", names: ["rsi", "macd"], limit: 2 };
const of = (tokenAddress) => ({ params: { path: { tokenAddress }, query } });
const path = "/v1/token/{tokenAddress}/indicators";
const good = await client.GET(path, of(mint));
const lost = await client.GET(path, of("nope"));
console.log(good.data.data.points.length, lost.response.status, lost.error.error.code);
"""
GENERATED: Final = """
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const [origin, mint] = process.argv.slice(2);
execFileSync("npx", ["openapi-ts", "-i", `${origin}/openapi.json`, "-o", "client"]);
writeFileSync("run.ts", `
import { client } from "./client/client.gen";
import * as calls from "./client/sdk.gen";
client.setConfig({ baseUrl: "${origin}", auth: process.env.MINTSCOPE_CREDENTIAL });
const path = { tokenAddress: "${mint}" };
const query = { tf: "m5" as const, names: ["rsi", "macd"] as any, limit: 2 };
const report = await calls.getToken({ path });
const page = await calls.getIndicators({ path, query });
const lost = await calls.getToken({ path: { tokenAddress: "nope" } });
console.log(report.response.status, page.data?.data.points.length, lost.error?.error.code);
`);
console.log(execFileSync("npx", ["tsx", "run.ts"]).toString());
"""
GEMINI: Final = """
import asyncio, sys
from google.genai import _mcp_utils
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main():
    origin, mint = sys.argv[1:]
    async with streamablehttp_client(f"{origin}/mcp") as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            named = _mcp_utils.mcp_to_gemini_tools(tools)
            lost = await session.call_tool("get_token", {"mint": "nope"})
            print(len(named) == len(tools) > 5, lost.isError)

asyncio.run(main())
"""
FASTMCP: Final = """
import asyncio, sys
from fastmcp import Client

async def main():
    origin, mint = sys.argv[1:]
    async with Client(f"{origin}/mcp") as client:
        tools = await client.list_tools()
        free = await client.call_tool("try_token", {"mint": mint})
        lost = await client.call_tool("get_token", {"mint": "nope"}, raise_on_error=False)
        print(len(tools) > 5, free.is_error, lost.is_error)

asyncio.run(main())
"""
KIT: Final = "@solana/kit@5.5.1"


@dataclass(frozen=True, kw_only=True)
class OtherClient:
    """A client of others.

    packages   of npm; empty: a Python program, with the packages of this checkout
    wheels     of Python, for a program that needs others
    program    runs with the address of the service and a mint
    expects    the expected output, or a part of it
    """

    name: str
    version: str
    program: str
    expects: str
    packages: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    does: str = "pays"


def _official(version: str) -> OtherClient:
    packages = (f"@x402/fetch@{version}", f"@x402/svm@{version}", KIT)
    return OtherClient(
        name="@x402/fetch, @x402/svm",
        version=version,
        packages=packages,
        program=PAY,
        expects="200 201",
    )


def _mcp(version: str) -> OtherClient:
    return OtherClient(
        name="@modelcontextprotocol/sdk",
        version=version,
        packages=(f"@modelcontextprotocol/sdk@{version}",),
        program=MCP,
        expects="true true 2 false",
        does="lists, reads, reads errors",
    )


CLIENTS: Final = (
    _official("2.27.0"),
    _official("2.9.0"),
    OtherClient(
        name="x402-fetch",
        version="1.2.0",
        packages=("x402-fetch@1.2.0",),
        program=OF_VERSION_1,
        expects="x402 version 2, not 1",
        does="says which version to use",
    ),
    OtherClient(
        name="@x402/extensions",
        version="2.27.0",
        packages=("@x402/fetch@2.27.0", "@x402/svm@2.27.0", "@x402/extensions@2.27.0", KIT),
        program=RECEIPT,
        expects="200 true true",
        does="pays, checks the receipt by its DID",
    ),
    OtherClient(
        name="@x402/extensions SIWX",
        version="2.27.0",
        packages=("@x402/fetch@2.27.0", "@x402/svm@2.27.0", "@x402/extensions@2.27.0", KIT),
        program=SIGN_IN,
        expects="201 200 true",
        does="spends credits by signing in",
    ),
    _mcp("1.20.0"),
    _mcp("1.32.2"),
    OtherClient(
        name="mcp-remote",
        version="0.15.1",
        packages=("mcp-remote@0.15.1", "@modelcontextprotocol/sdk@1.32.2"),
        program=THROUGH_REMOTE,
        expects="true true 2",
        does="lists, reads errors",
    ),
    OtherClient(
        name="MCP inspector",
        version="2.12.0",
        packages=("@modelcontextprotocol/inspector@2.12.0",),
        program=INSPECTED,
        expects="true true false",
        does="lists, reads, reads errors",
    ),
    OtherClient(
        name="openapi-fetch",
        version="0.17.0",
        packages=("openapi-fetch@0.17.0",),
        program=FETCHED,
        expects="2 400 INVALID_TOKEN_ADDRESS",
        does="reads a list of names, reads errors",
    ),
    OtherClient(
        name="@hey-api/openapi-ts",
        version="0.99.0",
        packages=("@hey-api/openapi-ts@0.99.0", "typescript@5", "tsx@4"),
        program=GENERATED,
        expects="200 2 INVALID_TOKEN_ADDRESS",
        does="generates, reads, reads errors",
    ),
    OtherClient(
        name="google-genai",
        version="3.6.1",
        wheels=("google-genai==3.6.1", "mcp<2"),
        program=GEMINI,
        expects="True True",
        does="takes all tools, reads errors",
    ),
    OtherClient(
        name="fastmcp",
        version="4.2.3",
        wheels=("fastmcp==4.2.3",),
        program=FASTMCP,
        expects="True False True",
        does="lists, reads, reads errors",
    ),
    OtherClient(
        name="eventsource",
        version="4.0.0",
        packages=("eventsource@4.0.0",),
        program=EVENTS,
        expects="true",
        does="reads a stream",
    ),
    OtherClient(
        name="x402 (Python)", version="as installed", program=PYTHON_PAYS, expects="200 201"
    ),
    OtherClient(
        name="mcp (Python)",
        version="as installed",
        program=PYTHON_MCP,
        expects="True True 2",
        does="lists, reads errors",
    ),
)
