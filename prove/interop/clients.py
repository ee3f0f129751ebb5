"""The clients that `make interop` runs: their packages, programs and expected outputs."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from prove.interop import payers, readers

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
const lost = await pay(`${origin}/v1/token/nope`);
console.log(report.status, bundle.status, (await lost.json()).error.code);
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
VERSION: Final = version("mintscope-client")
ORIGIN: Final = "ORIGIN"  # replaced by the address of the service


@dataclass(frozen=True, kw_only=True)
class OtherClient:
    """A client by other authors, or a client of this checkout, with an example program.

    packages   packages of npm, or a URL below ORIGIN; empty: the program is a Python program
               that uses the packages of this checkout
    wheels     wheels of Python, for a program that needs other packages
    flags      command-line flags of Node
    is_forced  whether npm must install its peer dependencies although they conflict
    python     the version of Python for the client of this checkout
    program    the code of the program; its arguments are the URL of the service and a mint
    expects    the expected output, or a part of that output
    """

    name: str
    version: str
    program: str
    expects: str
    packages: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    does: str = "pays, reads errors"
    flags: tuple[str, ...] = ()
    is_forced: bool = False
    python: str | None = None


def _official(version: str) -> OtherClient:
    packages = (f"@x402/fetch@{version}", f"@x402/svm@{version}", KIT)
    return OtherClient(
        name="@x402/fetch, @x402/svm",
        version=version,
        packages=packages,
        program=PAY,
        expects="200 201 INVALID_TOKEN_ADDRESS",
        does="pays, reads errors",
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


def _own(python: str) -> OtherClient:
    return OtherClient(
        name="mintscope-client",
        version=f"Python {python}",
        program=readers.OWN_CLIENT,
        expects=f"True 2 INVALID_TOKEN_ADDRESS True {python.removeprefix('3.')}",
        does="pays, reads, streams, reads errors",
        python=python,
    )


CLIENTS: Final = (
    _official("2.27.0"),
    _official("2.9.0"),
    OtherClient(
        name="x402-fetch",
        version="1.2.0",
        packages=("x402-fetch@1.2.0",),
        program=payers.OF_VERSION_1,
        expects="x402 version 2, not 1",
        does="says which version to use",
    ),
    OtherClient(
        name="@x402/extensions",
        version="2.27.0",
        packages=("@x402/fetch@2.27.0", "@x402/svm@2.27.0", "@x402/extensions@2.27.0", KIT),
        program=payers.RECEIPT,
        expects="200 true true",
        does="pays, checks the receipt by its DID",
    ),
    OtherClient(
        name="@x402/extensions SIWX",
        version="2.27.0",
        packages=("@x402/fetch@2.27.0", "@x402/svm@2.27.0", "@x402/extensions@2.27.0", KIT),
        program=payers.SIGN_IN,
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
        name="x402 (Python)",
        version="as installed",
        program=PYTHON_PAYS,
        expects="200 201",
        does="pays",
    ),
    OtherClient(
        name="mcp (Python)",
        version="as installed",
        program=PYTHON_MCP,
        expects="True True 2",
        does="lists, reads errors",
    ),
    OtherClient(
        name="@x402/axios",
        version="2.11.0",
        packages=("@x402/axios@2.11.0", "@x402/svm@2.11.0", "axios@1", KIT),
        program=payers.AXIOS,
        expects="200 201 INVALID_TOKEN_ADDRESS",
        does="pays in USDC, reads errors",
    ),
    OtherClient(
        name="x402-solana",
        version="2.0.4",
        packages=("x402-solana@2.0.4",),
        program=payers.OF_X402_SOLANA,
        expects="200 201 INVALID_TOKEN_ADDRESS Payment amount exceeds maximum",
        does="pays, reads errors, keeps its budget",
    ),
    OtherClient(
        name="@dexterai/x402",
        version="2.0.0",
        packages=("@dexterai/x402@2.0.0",),
        program=payers.OF_DEXTER,
        expects="200 201 INVALID_TOKEN_ADDRESS Payment amount 2500 exceeds maximum 1",
        does="pays, reads errors, keeps its budget",
    ),
    OtherClient(
        name="agentcash",
        version="0.14.4",
        packages=("agentcash@0.14.4", "ethers@6"),
        is_forced=True,
        program=payers.OF_AGENTCASH,
        expects="true true amount_exceeds_max_amount true 10 INVALID_TOKEN_ADDRESS",
        does="discovers, pays in USDC, reads errors, keeps its budget",
    ),
    OtherClient(
        name="@agentcash/discovery",
        version="1.7.5",
        packages=("@agentcash/discovery@1.7.5",),
        program=readers.DISCOVERY,
        expects="true true 0",
        does="finds every paid route, no error",
    ),
    OtherClient(
        name="@faremeter/fetch",
        version="0.22.0",
        packages=(
            "@faremeter/fetch@0.22.0",
            "@faremeter/payment-solana@0.22.0",
            "@faremeter/wallet-solana@0.22.0",
            "bs58@6",
        ),
        program=payers.OF_FAREMETER,
        expects="200 201 INVALID_TOKEN_ADDRESS",
    ),
    OtherClient(
        name="@solana/mpp, mppx",
        version="0.6.0, 0.11.0",
        packages=("@solana/mpp@0.6.0", "mppx@0.11.0", "@solana/kit@6.10.0", "viem@2"),
        is_forced=True,
        program=payers.OF_MPP,
        expects="200 201 success INVALID_TOKEN_ADDRESS",
        does="pays by MPP, reads errors",
    ),
    OtherClient(
        name="pympp",
        version="0.16.0",
        wheels=("pympp==0.16.0", "solana-pay-kit==0.10.0"),
        program=payers.PYTHON_MPP,
        expects="200 201 True INVALID_TOKEN_ADDRESS",
        does="pays by MPP, reads errors",
    ),
    OtherClient(
        name="solana-pay-kit",
        version="0.10.0",
        wheels=("solana-pay-kit==0.10.0",),
        program=payers.PYTHON_PAY_KIT,
        expects="200 201 INVALID_TOKEN_ADDRESS",
        does="pays by MPP, reads errors",
    ),
    OtherClient(
        name="x402 with requests",
        version="2.25.0",
        wheels=("x402[svm,requests]==2.25.0",),
        program=payers.OLDER_PYTHON,
        expects="200 201 INVALID_TOKEN_ADDRESS",
        does="pays in USDC, reads errors",
    ),
    OtherClient(
        name="@modelcontextprotocol/client",
        version="2.4.0",
        packages=("@modelcontextprotocol/client@2.4.0",),
        program=readers.MCP_2,
        expects="true true 2 false",
        does="lists, reads, reads errors",
    ),
    OtherClient(
        name="mcp-use",
        version="1.7.1",
        wheels=("mcp-use==1.7.1",),
        program=readers.MCP_USE,
        expects="True True False",
        does="lists, reads, reads errors",
    ),
    OtherClient(
        name="openai-agents",
        version="0.24.0",
        wheels=("openai-agents==0.24.0",),
        program=readers.OPENAI_AGENTS,
        expects="True True 2 False",
        does="lists, reads, reads errors",
    ),
    OtherClient(
        name="langchain-mcp-adapters",
        version="0.3.2",
        wheels=("langchain-mcp-adapters==0.3.2",),
        program=readers.LANGCHAIN,
        expects="True True True",
        does="lists, reads, reads errors",
    ),
    OtherClient(
        name="tdqs",
        version="0.1.0",
        wheels=("tdqs==0.1.0",),
        program=readers.TDQS,
        expects="0 ",
        does="judges the tools: no error",
    ),
    OtherClient(
        name="orval",
        version="7.13.0",
        packages=("orval@7.13.0", "typescript@5", "tsx@4"),
        program=readers.ORVAL,
        expects="200 2 INVALID_TOKEN_ADDRESS",
        does="generates, reads, reads errors",
    ),
    OtherClient(
        name="orval",
        version="8.38.0",
        packages=("orval@8.38.0", "typescript@5", "tsx@4"),
        program=readers.ORVAL,
        expects="200 2 INVALID_TOKEN_ADDRESS",
        does="generates, reads, reads errors",
    ),
    OtherClient(
        name="openapi-python-client",
        version="0.29.1",
        wheels=("openapi-python-client==0.29.1",),
        program=readers.OPENAPI_PYTHON,
        expects="200 2 INVALID_TOKEN_ADDRESS",
        does="generates, reads, reads errors",
    ),
    OtherClient(
        name="datamodel-codegen",
        version="0.89.0",
        wheels=("datamodel-code-generator[http]==0.89.0", "httpx"),
        program=readers.DATAMODEL,
        expects="5",
        does="generates models, which five answers fit",
    ),
    OtherClient(
        name="@stoplight/prism-cli",
        version="5.16.0",
        packages=("@stoplight/prism-cli@5.16.0",),
        program=readers.PRISM,
        # 422: prism itself refuses the request
        expects="200 200 200 200 200 200 200 200 422 200 0",
        does="validates nine answers, refuses a bad request",
    ),
    OtherClient(
        name="@stoplight/spectral-cli",
        version="6.16.3",
        packages=("@stoplight/spectral-cli@6.16.3",),
        program=readers.SPECTRAL,
        expects="0 []",
        does="judges the description: no error",
    ),
    OtherClient(
        name="eventsource-parser",
        version="4.1.3",
        packages=("eventsource-parser@4.1.3",),
        program=readers.PARSED_EVENTS,
        expects="true",
        does="reads a stream",
    ),
    OtherClient(
        name="httpx-sse",
        version="0.4.3",
        wheels=("httpx-sse==0.4.3",),
        program=readers.HTTPX_SSE,
        expects="True",
        does="reads a stream",
    ),
    OtherClient(
        name="ws",
        version="8",
        packages=("ws@8",),
        program=readers.WS,
        expects="true",
        does="reads a stream by WebSocket",
    ),
    OtherClient(
        name="standardwebhooks",
        version="1.1.1",
        packages=("standardwebhooks@1.1.1",),
        program=readers.WEBHOOKS,
        expects="signal.test No matching signature found",
        does="checks a webhook, refuses a forged one",
    ),
    OtherClient(
        name="standardwebhooks (Python)",
        version="1.1.0",
        wheels=("standardwebhooks==1.1.0",),
        program=readers.PYTHON_WEBHOOKS,
        expects="signal.test No matching signature found",
        does="checks a webhook, refuses a forged one",
    ),
    OtherClient(
        name="mintscope-client (npm)",
        version=VERSION,
        packages=(
            "@x402/fetch@2.27.0",
            "@x402/svm@2.27.0",
            KIT,
            "ws@8",
            f"{ORIGIN}/client/mintscope-client-{VERSION}.tgz",
        ),
        program=payers.OWN_CLIENT,
        expects="true true true INVALID_TOKEN_ADDRESS true",
        does="pays, signs in, reads, streams by WebSocket, reads errors",
    ),
    OtherClient(
        name="mintscope-client (Pyodide)",
        version="Python 3.14",
        packages=("pyodide@314.0.7",),
        flags=("--experimental-wasm-jspi",),  # Python as WebAssembly needs it to wait for a socket
        program=readers.IN_WASM,
        expects="True 2 True INVALID_TOKEN_ADDRESS 14",
        does="reads, streams, reads errors",
    ),
    *map(_own, ("3.10", "3.11", "3.12", "3.13", "3.14")),
)
