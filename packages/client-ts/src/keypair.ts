import type { MessageSigner } from "./signIn.ts";

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const KEYPAIR_BYTES = 64;
// RFC 8410: the bytes of an encoded private key before its 32 key bytes.
const PKCS8_OF_ED25519 = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
const EXPECTED = "expected a Solana keypair: a JSON list of 64 numbers, or base58";

/**
 * Return the 64 bytes of the Solana keypair in `text`, the private key first.
 *
 * `text` is the content of a file of `solana-keygen`, or the export of a wallet. Throws an Error
 * that shows nothing of `text`. `createKeyPairSignerFromBytes` of `@solana/kit` makes a signer of
 * the bytes.
 */
export function parseKeypair(text: string): Uint8Array {
  const numbers = text.trimStart().startsWith("[") ? listed(text) : decoded(text.trim());
  const isKey = numbers.every((each) => Number.isInteger(each) && each >= 0 && each < 256);
  if (numbers.length !== KEYPAIR_BYTES || !isKey) throw new Error(EXPECTED);
  return Uint8Array.from(numbers);
}

/**
 * Return a wallet that signs texts with the 64 bytes of a keypair, for `WalletSignIn`. It uses the
 * Web Crypto of Node or of the browser.
 */
export async function keypairWallet(keypair: Uint8Array): Promise<MessageSigner> {
  const encoded = Uint8Array.from([...PKCS8_OF_ED25519, ...keypair.subarray(0, 32)]);
  const key = await crypto.subtle.importKey("pkcs8", encoded, "Ed25519", false, ["sign"]);
  return {
    address: base58(keypair.subarray(32)),
    signMessage: async (message) =>
      new Uint8Array(await crypto.subtle.sign("Ed25519", key, Uint8Array.from(message))),
  };
}

/** Return `bytes` as base58. */
export function base58(bytes: Uint8Array): string {
  let value = 0n;
  for (const each of bytes) value = value * 256n + BigInt(each);
  let text = "";
  for (; value > 0n; value /= 58n) text = ALPHABET.charAt(Number(value % 58n)) + text;
  const zeros = bytes.findIndex((each) => each !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + text;
}

function listed(text: string): number[] {
  try {
    return JSON.parse(text) as number[];
  } catch {
    return [];
  }
}

/** Return the bytes of `text`, which is base58; no bytes if it is not base58. */
function decoded(text: string): number[] {
  if (text.length > 2 * KEYPAIR_BYTES) return [];
  let value = 0n;
  for (const sign of text) {
    const digit = ALPHABET.indexOf(sign);
    if (digit < 0) return [];
    value = value * 58n + BigInt(digit);
  }
  const bytes: number[] = [];
  for (; value > 0n; value >>= 8n) bytes.unshift(Number(value & 255n));
  const zeros = text.length - text.replace(/^1+/, "").length;
  return [...new Array<number>(zeros).fill(0), ...bytes];
}
