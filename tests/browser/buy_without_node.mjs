// The official TypeScript client of x402, whose node is a port that no process listens on.
// It takes the blockhash from the 402.  It would request the mint from the node once; if KNOWS_MINT
// is set, its cache gets the mint beforehand, from `/.well-known/x402`.
// Usage: node buy_without_node.mjs ORIGIN; the wallet and the node are in the environment.
import { createKeyPairSignerFromBytes, getBase58Encoder } from "@solana/kit";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";

const sold = await (await fetch(`${process.argv[2]}/.well-known/x402`)).json();
const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const scheme = new ExactSvmScheme(signer, { rpcUrl: process.env.SOLANA_RPC_URL });
if (process.env.KNOWS_MINT) {
  for (const { network, asset, decimals } of sold.payment) {
    const programAddress = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
    scheme.mintCache.set(`${network}:${asset}`, Promise.resolve({ decimals, programAddress }));
  }
}
const payer = new x402Client().register("solana:*", scheme);
payer.setSpendControls({ allowedAssets: true });
const pay = wrapFetchWithPayment(fetch, payer);
const bought = await pay(`${process.argv[2]}/v1/credits/purchase?bundle=10`, { method: "POST" });
console.log(JSON.stringify({ status: bought.status, body: await bought.json() }));
process.exit(0);
