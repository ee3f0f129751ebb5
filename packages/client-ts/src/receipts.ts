/** Signed receipts of payments, checked: what was bought, by whom, when, by which transaction. */

const ALGORITHM = "EdDSA";
const KEY = "Ed25519";
const RECEIPT_CHARACTERS_MAX = 4096;

/** A receipt is not one of the service; the message says why. */
export class ForgedReceiptError extends Error {}

/** The keys of a service, `/.well-known/did.json`; those of replaced secrets are among them. */
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
  /** CAIP-2. */
  readonly network: string;
  /** Of what was bought. */
  readonly resourceUrl: string;
  /** The wallet. */
  readonly payer: string;
  /** Unix seconds. */
  readonly issuedAt: number;
  /** Its signature, base58. */
  readonly transaction?: string;
}

/**
 * Return what `receipt`, a JWS, claims, if the service of `document` has signed it. Throws
 * ForgedReceiptError. Keep `Client.receiptKeys()` if receipts shall last for years.
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
    // neither a key nor a signature
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

/** Return the bytes of base64url. */
function bytes(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (sign) => sign.charCodeAt(0));
}
