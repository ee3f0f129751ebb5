"""Example programs of other clients that only read: MCP, OpenAPI, streams and webhooks."""

from typing import Final

MCP_2: Final = """
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

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
MCP_USE: Final = """
import asyncio, sys
from mcp_use import MCPClient

async def main():
    origin, mint = sys.argv[1:]
    client = MCPClient.from_dict({"mcpServers": {"mintscope": {"url": f"{origin}/mcp"}}})
    session = await client.create_session("mintscope")
    tools = await session.list_tools()
    lost = await session.call_tool("get_token", {"mint": "nope"})
    free = await session.call_tool("try_token", {"mint": mint})
    print(len(tools) > 5, lost.isError, free.isError)
    await client.close_all_sessions()

asyncio.run(main())
"""
OPENAI_AGENTS: Final = """
import asyncio, json, sys
from agents.mcp import MCPServerStreamableHttp

async def main():
    origin, mint = sys.argv[1:]
    async with MCPServerStreamableHttp({"url": f"{origin}/mcp"}) as server:
        tools = await server.list_tools()
        lost = await server.call_tool("get_token", {"mint": "nope"})
        unpaid = await server.call_tool("get_token", {"mint": mint})
        free = await server.call_tool("try_token", {"mint": mint})
        version = json.loads(unpaid.content[0].text)["x402Version"]
        failed = [getattr(each, "isError", None) for each in (lost, free)]
        if failed[0] is None:  # of mcp 2
            failed = [lost.is_error, free.is_error]
        print(len(tools) > 5, failed[0], version, failed[1])

asyncio.run(main())
"""
LANGCHAIN: Final = """
import asyncio, sys
from langchain_mcp_adapters.client import MultiServerMCPClient

async def main():
    origin, mint = sys.argv[1:]
    at = {"mintscope": {"url": f"{origin}/mcp", "transport": "streamable_http"}}
    tools = {tool.name: tool for tool in await MultiServerMCPClient(at).get_tools()}
    free = await tools["try_token"].ainvoke({"mint": mint})
    try:
        lost = str(await tools["get_token"].ainvoke({"mint": "nope"}))
    except Exception as why:
        lost = str(why)
    print(len(tools) > 5, mint in str(free), "INVALID_TOKEN_ADDRESS" in lost)

asyncio.run(main())
"""
TDQS: Final = """
import asyncio, json, subprocess, sys
import httpx

origin, _ = sys.argv[1:]
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
headers = {"Accept": "application/json, text/event-stream"}
text = httpx.post(f"{origin}/mcp", json=call, headers=headers).text
listed = json.loads(text[text.index("{"):].splitlines()[0])["result"]
open("tools.json", "w").write(json.dumps(listed))
ran = subprocess.run(["tdqs", "lint", "tools.json"], capture_output=True, text=True)
print(ran.returncode, ran.stdout[-400:], ran.stderr[-300:])
"""
ORVAL: Final = """
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const [origin, mint] = process.argv.slice(2);
const options = ["--input", `${origin}/openapi.json`, "--output", "client.ts", "--client", "fetch"];
execFileSync("npx", ["orval", ...options], { stdio: ["ignore", "ignore", "inherit"] });
writeFileSync("run.ts", `
import { getIndicators, getToken } from "./client";
const real = globalThis.fetch;
globalThis.fetch = (path: any, init: any) => real(new URL(path, "${origin}"), init);
const headers = { Authorization: "Bearer ${process.env.MINTSCOPE_CREDENTIAL}" };
const query: any = { tf: "m5", names: ["rsi", "macd"], limit: 2 };
const report = await getToken("${mint}", {}, { headers });
const page: any = await getIndicators("${mint}", query, { headers });
const lost: any = await getToken("nope", {}, { headers });
console.log(report.status, page.data.data.points.length, lost.data.error.code);
`);
console.log(execFileSync("npx", ["tsx", "run.ts"]).toString());
"""
OPENAPI_PYTHON: Final = """
import os, subprocess, sys

origin, mint = sys.argv[1:]
make = ["openapi-python-client", "generate", "--url", f"{origin}/openapi.json"]
subprocess.run([*make, "--output-path", "made", "--meta", "none"], check=True, stdout=2)
from made import AuthenticatedClient
from made.api.market_data import get_indicators, get_token

client = AuthenticatedClient(base_url=origin, token=os.environ["MINTSCOPE_CREDENTIAL"])
report = get_token.sync_detailed(mint, client=client)
from made.models import GetIndicatorsTf as Tf
page = get_indicators.sync(mint, client=client, tf=Tf("m5"), names=["rsi", "macd"], limit=2)
lost = get_token.sync("nope", client=client)
print(report.status_code.value, len(page.data.points), lost.error.code)
"""
DATAMODEL: Final = """
import json, os, subprocess, sys
import httpx

origin, mint = sys.argv[1:]
make = ["datamodel-codegen", "--url", f"{origin}/openapi.json", "--input-file-type", "openapi"]
options = ["--output", "made.py", "--output-model-type", "pydantic_v2.BaseModel"]
subprocess.run([*make, *options], check=True)
import made

headers = {"Authorization": f"Bearer {os.environ['MINTSCOPE_CREDENTIAL']}"}
described = httpx.get(f"{origin}/openapi.json").json()
paths = {
    "/v1/token/{tokenAddress}": f"/v1/token/{mint}",
    "/v1/token/{tokenAddress}/candles": f"/v1/token/{mint}/candles?tf=m5&limit=3",
    "/v1/token/{tokenAddress}/indicators": f"/v1/token/{mint}/indicators?tf=m5&names=rsi&limit=2",
    "/v1/tokens": "/v1/tokens?limit=3",
    "/v1/credits/balance": "/v1/credits/balance",
}
read = 0
for path, called in paths.items():
    answers = described["paths"][path]["get"]["responses"]["200"]["content"]
    reference = answers["application/json"]["schema"]["$ref"]
    model = getattr(made, reference.rpartition("/")[2])
    answer = httpx.get(f"{origin}{called}", headers=headers)
    model.model_validate_json(answer.content)
    read += answer.status_code == 200
print(read)
"""
PRISM: Final = """
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";

const [origin, mint] = process.argv.slice(2);
writeFileSync("openapi.json", await (await fetch(`${origin}/openapi.json`)).text());
const port = "4871";
const args = ["prism", "proxy", "openapi.json", origin, "--port", port, "--errors"];
const proxy = spawn("npx", args, { stdio: "ignore", detached: true });
const headers = { Authorization: `Bearer ${process.env.MINTSCOPE_CREDENTIAL}` };
const ask = async (path, tries = 80) => {
  try {
    return await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  } catch (failure) {
    if (!tries) throw failure;
    await new Promise((done) => setTimeout(done, 250));
    return ask(path, tries - 1);
  }
};
const paths = [
  `/v1/token/${mint}`, `/v1/token/${mint}/candles?tf=m5&limit=3`, "/v1/tokens?limit=3",
  `/v1/token/${mint}/indicators?tf=m5&names=rsi,macd&limit=2`, "/v1/credits/balance",
  `/v1/token/${mint}/pools`, `/v1/token/${mint}/swaps?limit=3`, "/v1/credits/bundles",
  "/v1/token/nope", "/v1/health",
];
const answers = [];
for (const path of paths) answers.push(await ask(path));
const faults = answers.filter((each) => each.headers.has("sl-violations"));
console.log(answers.map((each) => each.status).join(" "), faults.length);
process.kill(-proxy.pid);
process.exit(0);
"""
SPECTRAL: Final = """
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const [origin] = process.argv.slice(2);
writeFileSync("openapi.json", await (await fetch(`${origin}/openapi.json`)).text());
writeFileSync(".spectral.yaml", 'extends: ["spectral:oas"]');
const args = ["spectral", "lint", "openapi.json", "--format", "json", "--quiet"];
const ran = spawnSync("npx", args, { maxBuffer: 1 << 26 });
const found = JSON.parse(ran.stdout.toString() || "[]").filter((each) => each.severity === 0);
console.log(found.length, JSON.stringify(found.slice(0, 2)));
"""
DISCOVERY: Final = """
import { execFileSync } from "node:child_process";

const [origin] = process.argv.slice(2);
const bin = "node_modules/@agentcash/discovery/bin/discovery.js";
const ask = (...words) => JSON.parse(execFileSync("node", [bin, ...words, "--json"]));
const { endpoints } = await (await fetch(`${origin}/.well-known/x402`)).json();
const checks = endpoints.map(({ url }) => ask("check", url));
const errors = [...checks, ask("discover", origin)].flatMap(({ warnings }) => warnings)
  .filter(({ severity }) => severity === "error");
console.log(checks.every(({ found }) => found), checks.length > 5, errors.length);
"""
PARSED_EVENTS: Final = """
import { createParser } from "eventsource-parser";

const [origin, mint] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.MINTSCOPE_CREDENTIAL}` };
const answer = await fetch(`${origin}/v1/stream?mints=${mint}`, { headers });
const parser = createParser({
  onEvent: (event) => {
    if (event.event !== "snapshot") return;
    console.log(JSON.parse(event.data).token === mint);
    process.exit(0);
  },
});
for await (const part of answer.body.pipeThrough(new TextDecoderStream())) parser.feed(part);
"""
HTTPX_SSE: Final = """
import json, os, sys
import httpx
from httpx_sse import connect_sse

origin, mint = sys.argv[1:]
headers = {"Authorization": f"Bearer {os.environ['MINTSCOPE_CREDENTIAL']}"}
with httpx.Client(headers=headers, timeout=30) as http:
    with connect_sse(http, "GET", f"{origin}/v1/stream?mints={mint}") as stream:
        for event in stream.iter_sse():
            if event.event == "snapshot":
                print(json.loads(event.data)["token"] == mint)
                break
"""
WS: Final = """
import WebSocket from "ws";

const [origin, mint] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.MINTSCOPE_CREDENTIAL}` };
const url = `${origin.replace("http", "ws")}/v1/stream?mints=${mint}`;
const socket = new WebSocket(url, { headers });
socket.on("message", (data) => {
  const message = JSON.parse(data);
  if (message.type !== "snapshot") return;
  console.log(message.data.token === mint);
  process.exit(0);
});
"""
# WEBHOOK has a webhook that the code of this checkout has signed: its secret, headers and body.
WEBHOOKS: Final = """
import { Webhook } from "standardwebhooks";

const { secret, headers, body } = JSON.parse(process.env.WEBHOOK);
const read = new Webhook(secret).verify(body, headers);
const forged = (() => {
  try {
    return new Webhook(secret).verify(`${body} `, headers);
  } catch (failure) {
    return failure.message;
  }
})();
console.log(read.type, forged);
"""
PYTHON_WEBHOOKS: Final = """
import json, os
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

sent = json.loads(os.environ["WEBHOOK"])
read = Webhook(sent["secret"]).verify(sent["body"], sent["headers"])
try:
    Webhook(sent["secret"]).verify(sent["body"] + " ", sent["headers"])
except WebhookVerificationError as why:
    print(read["type"], why)
"""

# The client of this checkout with Python 3.14. Few machines have that version, so it runs as
# WebAssembly, without payments, because solders has no wheel for WebAssembly.
IN_WASM: Final = """
import { execFileSync } from "node:child_process";
import { loadPyodide } from "pyodide";

const [origin, mint] = process.argv.slice(2);
const wheels = ["--platform", "pyemscripten_2026_0_wasm32", "--python-version", "3.14"];
const wheel = `${origin}/client/mintscope_client-${process.env.CLIENT_VERSION}-py3-none-any.whl`;
const options = ["--quiet", "--only-binary=:all:", "--target", "site", ...wheels];
execFileSync("python", ["-m", "pip", "install", ...options, wheel], { stdio: "ignore" });
const python = await loadPyodide();
python.mountNodeFS("/site", "./site");
await python.useNodeSockFS();
python.globals.set("words", [origin, mint, process.env.MINTSCOPE_CREDENTIAL]);
await python.runPythonAsync(`
import sys
sys.path.append("/site")
from mintscope_client import Client
from mintscope_client.errors import RefusedError

origin, mint, credential = words
with Client(origin, credential=credential) as client:
    report = client.token(mint)
    lines = list(client.candles(mint, "m5", limit=2).first().candles)
    streamed = next(client.stream([mint])).report
    try:
        client.token("nope")
    except RefusedError as why:
        code = why.code
print(report.token == mint, len(lines), streamed.token == mint, code, sys.version_info[1])
`);
process.exit(0);
"""

# The client of this checkout, as a wheel, with a version of Python.
OWN_CLIENT: Final = """
import asyncio, os, sys
from datetime import datetime, timezone
from solders.keypair import Keypair
import httpx
from mintscope_client import AsyncClient, Client
from mintscope_client.auth import PaymentAuth
from mintscope_client.errors import RefusedError
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit

origin, mint = sys.argv[1:]
sold = httpx.get(f"{origin}/.well-known/x402").json()["payment"][0]
pin = Pin(network=sold["network"], asset=sold["asset"], decimals=6, pay_to=sold["payTo"])
key = Keypair.from_base58_string(os.environ["SOLANA_PRIVATE_KEY"])
limit = SpendLimit(atoms_per_payment=10**6, atoms_in_all=10**7)
wallet = PayerWallet(keypair=key, pin=pin, limit=limit)
payer = PaymentAuth(wallet, rpc_url=os.environ["SOLANA_RPC_URL"])
with Client(origin, payer=payer) as client:
    report, bought = client.token(mint), client.buy_credits(10)
with Client(origin, credential=bought.token) as client:
    since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    lines = list(client.candles(mint, "m5", limit=2, from_=since).first().candles)
    try:
        client.token("nope")
    except RefusedError as why:
        code = why.code

async def streamed():
    async with AsyncClient(origin, credential=os.environ["MINTSCOPE_CREDENTIAL"]) as client:
        async for live in client.stream([mint]):
            return live.report.token == mint

print(report.token == mint, len(lines), code, asyncio.run(streamed()), sys.version_info[1])
"""
