const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const KEYPAIR_BYTES = 64;
const EXPECTED = "expected a Solana keypair: a JSON list of 64 numbers, or base58";
/**
 * Return the 64 bytes of a Solana keypair, private key first, as a file of `solana-keygen` or the
 * export of a wallet has them. Throws an Error that shows nothing of `text`.
 *
 * `createKeyPairSignerFromBytes` of `@solana/kit` makes a signer of them.
 */
export function parseKeypair(text) {
    const numbers = text.trimStart().startsWith("[") ? listed(text) : decoded(text.trim());
    const isKey = numbers.every((each) => Number.isInteger(each) && each >= 0 && each < 256);
    if (numbers.length !== KEYPAIR_BYTES || !isKey)
        throw new Error(EXPECTED);
    return Uint8Array.from(numbers);
}
function listed(text) {
    try {
        return JSON.parse(text);
    }
    catch {
        return [];
    }
}
/** Return the bytes that `text` spells in base58; none if it is not base58. */
function decoded(text) {
    if (text.length > 2 * KEYPAIR_BYTES)
        return [];
    let value = 0n;
    for (const sign of text) {
        const digit = ALPHABET.indexOf(sign);
        if (digit < 0)
            return [];
        value = value * 58n + BigInt(digit);
    }
    const bytes = [];
    for (; value > 0n; value >>= 8n)
        bytes.unshift(Number(value & 255n));
    const zeros = text.length - text.replace(/^1+/, "").length;
    return [...new Array(zeros).fill(0), ...bytes];
}
