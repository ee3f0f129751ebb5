/** Verification of signed payment receipts: purchase, buyer, time and transaction. */

const ALGORITHM = "EdDSA";
const KEY = "Ed25519";
const RECEIPT_CHARACTERS_MAX = 4096;

/** The receipt is malformed, or is not from the service; the message has the reason. */
export class ForgedReceiptError extends Error {}

/** The public keys of a service, as in `/.well-known/did.json`, including replaced keys. */
export interface DidDocument {
  readonly id: string;
  readonly verificationMethod: readonly {
    readonly id: string;
    readonly controller: string;
    readonly publicKeyJwk: { readonly kty: string; readonly crv: string; readonly x: string };
  }[];
  readonly assertionMethod: readonly string[];
}

export interface ReceiptClaims {
  readonly version: number;
  /** The identifier of the network, CAIP-2. */
  readonly network: string;
  /** The URL of the purchased resource. */
  readonly resourceUrl: string;
  /** The address of the wallet that paid. */
  readonly payer: string;
  /** The time of the receipt, Unix seconds. */
  readonly issuedAt: number;
  /** The signature of the payment's transaction, base58. */
  readonly transaction?: string;
}

/**
 * Return the claims of `receipt`, a JWS, if the service with `document` has signed it. Throws
 * ForgedReceiptError. Store the result of `Client.receiptKeys()` to verify receipts for years.
 */
export async function checkReceipt(receipt: string, document: DidDocument): Promise<ReceiptClaims> {
  const [head = "", body = "", signature = "", ...more] = receipt.slice(0, RECEIPT_CHARACTERS_MAX).split(".");
  const header = decoded<{ alg: string; kid: string }>(head);
  const claims = decoded<ReceiptClaims>(body);
  if (more.length > 0 || header === null || claims === null || !URL.canParse(claims.resourceUrl)) {
    throw new ForgedReceiptError("expected a JWS with the claims of a receipt");
  }
  const service = `did:web:${new URL(claims.resourceUrl).host.replace(":", "%3A")}`;
  if (document.id !== service) {
    throw new ForgedReceiptError(`expected a receipt of ${document.id}; was of ${service}`);
  }
  const method = document.verificationMethod.find(
    (each) =>
      each.id === header.kid &&
      document.assertionMethod.includes(each.id) &&
      each.controller === document.id &&
      each.publicKeyJwk.crv === KEY,
  );
  if (method === undefined || header.alg !== ALGORITHM) {
    throw new ForgedReceiptError(`expected a key of ${document.id}`);
  }
  const { kty, crv, x } = method.publicKeyJwk;
  try {
    const key = await crypto.subtle.importKey("jwk", { kty, crv, x }, KEY, false, ["verify"]);
    const signed = new TextEncoder().encode(`${head}.${body}`);
    if (await crypto.subtle.verify(KEY, key, bytes(signature), signed)) return claims;
  } catch {
    // the key or the signature is invalid
  }
  throw new ForgedReceiptError("expected the signature of the service; was another one");
}

function decoded<Content>(part: string): Content | null {
  try {
    const content: unknown = JSON.parse(new TextDecoder().decode(bytes(part)));
    return typeof content === "object" ? (content as Content) : null;
  } catch {
    return null;
  }
}

/** Return the bytes of `text`, which is base64url. */
function bytes(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (sign) => sign.charCodeAt(0));
}
