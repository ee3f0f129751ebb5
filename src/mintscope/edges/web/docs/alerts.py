"""The programs of the guide about alerts; tests/docs/test_alert_guide.py runs them."""

from typing import Final

RULE: Final = """\
curl -s -X POST {origin}/v1/signals \\
  -H "Authorization: Bearer $MINTSCOPE_API_KEY" -H "content-type: application/json" \\
  -d '{"name": "RSI of SOL", "mint": "{mint}",
       "field": "indicators.h1.rsi", "kind": "crosses", "level": 30, "margin": 1,
       "webhookUrl": "https://example.org/hooks/mintscope"}'"""
HOOK_PYTHON: Final = """\
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["MINTSCOPE_WEBHOOK_SECRET"])

class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            return self.send_error(400)
        self.send_response(204)
        self.end_headers()
        name, data = self.headers["webhook-id"], event["data"]
        print(name, data["field"], data["direction"], data["value"], flush=True)

HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Hook).serve_forever()"""
HOOK_TYPESCRIPT: Final = """\
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

type Event = { data: { field: string; direction: "up" | "down"; value: number } };
const webhook = new Webhook(process.env.MINTSCOPE_WEBHOOK_SECRET!);

createServer(async (request, response) => {
  let body = "";
  for await (const part of request.setEncoding("utf8")) body += part;
  const headers = request.headers as Record<string, string>;
  try {
    const { data } = webhook.verify(body, headers) as Event;
    response.writeHead(204).end();
    console.log(headers["webhook-id"], data.field, data.direction, data.value);
  } catch {
    response.writeHead(400).end();
  }
}).listen(Number(process.env.PORT ?? 8000), "127.0.0.1");"""
