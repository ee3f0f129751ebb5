// The official client in a page of another origin: it pays for a report, and buys credits.
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";

window.pay = async ({ origin, secret, rpcUrl, mint }) => {
  const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(secret));
  const payer = new x402Client().register("solana:*", new ExactSvmScheme(signer, { rpcUrl }));
  payer.setSpendControls({ allowedAssets: true });
  const pay = wrapFetchWithPayment(fetch, payer);
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  const read = await pay(`${origin}/v1/token/${mint}`, { headers });
  const bought = await pay(`${origin}/v1/credits/purchase?bundle=10`, { method: "POST" });
  const lost = await fetch(`${origin}/v1/token/nothing`);
  return [
    { status: read.status, receipt: read.headers.get("PAYMENT-RESPONSE"), body: await read.json() },
    { status: bought.status, receipt: bought.headers.get("PAYMENT-RESPONSE"), body: await bought.json() },
    { status: lost.status, receipt: null, body: await lost.json() },
  ];
};
