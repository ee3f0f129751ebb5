// The official TypeScript client of x402: it gets an origin, and discovers the rest.
// Usage: node buy_with_x402.mjs ORIGIN; the wallet and its node are in the environment.
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";

const sold = await (await fetch(`${process.argv[2]}/.well-known/x402`)).json();
const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
const payer = new x402Client().register("solana:*", scheme);
payer.setSpendControls({ allowedAssets: true });
const pay = wrapFetchWithPayment(fetch, payer);
const answers = {};
for (const { method, url, path } of sold.endpoints) {
  const answer = await pay(url, { method });
  answers[`${method} ${path}`] = { status: answer.status, body: await answer.json() };
}
console.log(JSON.stringify(answers));
process.exit(0);
