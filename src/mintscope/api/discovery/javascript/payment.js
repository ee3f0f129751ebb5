import { OverBudgetError, WillNotPayError } from "./errors.js";
/** Checks each demand against the pin before anything is signed. */
export class Payer {
    #pin;
    #signer;
    /** Atoms of every payment that was signed. */
    spent = 0n;
    constructor(pin, signer) {
        this.#pin = pin;
        this.#signer = signer;
    }
    /** Return PAYMENT-SIGNATURE for the demand of PAYMENT-REQUIRED. Throws WillNotPayError, OverBudgetError. */
    async pay(header) {
        const { network, asset, payTo, atomsPerPayment, atomsInAll } = this.#pin;
        const demand = parse(header);
        const offer = demand.accepts.find((each) => each.scheme === "exact" && each.network === network && each.asset === asset && each.payTo === payTo);
        if (offer === undefined || !/^\d{1,20}$/.test(offer.amount)) {
            throw new WillNotPayError(`expected a demand for ${asset} to ${payTo} on ${network}; there was none`);
        }
        const atoms = BigInt(offer.amount);
        if (atoms > atomsPerPayment || this.spent + atoms > atomsInAll) {
            throw new OverBudgetError(`expected at most ${atomsPerPayment} atoms a payment and ${atomsInAll} in all;` +
                ` ${this.spent} are spent, ${atoms} more are asked for`);
        }
        this.spent += atoms;
        try {
            return await this.#signer.sign(demand, offer, header);
        }
        catch (cause) {
            this.spent -= atoms;
            throw cause;
        }
    }
}
/** Return the signed receipt in PAYMENT-RESPONSE, a JWS; null if there is none. */
export function receiptOf(header) {
    try {
        const signature = JSON.parse(atob(header ?? "")).extensions["offer-receipt"].info.receipt.signature;
        return typeof signature === "string" ? signature : null;
    }
    catch {
        return null;
    }
}
function parse(header) {
    try {
        const bytes = Uint8Array.from(atob(header), (sign) => sign.charCodeAt(0));
        const demand = JSON.parse(new TextDecoder().decode(bytes));
        if (demand.x402Version === 2 && Array.isArray(demand.accepts))
            return demand;
    }
    catch {
        // handled below
    }
    throw new WillNotPayError("expected PAYMENT-REQUIRED of x402 version 2");
}
