import { OverBudgetError, WillNotPayError, notSigned } from "./errors.ts";

/** One offer to pay: an entry of `accepts` in an x402 demand. */
export interface Offer {
  scheme: string;
  network: string;
  asset: string;
  amount: string;
  payTo: string;
  maxTimeoutSeconds: number;
  extra: Record<string, unknown>;
}

/** A demand of x402 version 2: the content of PAYMENT-REQUIRED. */
export interface Demand {
  x402Version: number;
  accepts: Offer[];
  resource?: unknown;
  [field: string]: unknown;
}

/**
 * The only asset and payee of all payments, and their limits. Set these fields from a trusted
 * source, not from an answer of the service.
 */
export interface Pin {
  network: string;
  asset: string;
  payTo: string;
  /** The largest amount of one payment, in atoms of the asset. */
  atomsPerPayment: bigint;
  /** The largest sum of all payments, in atoms of the asset. */
  atomsInAll: bigint;
}

/** Signs payments, for example with an x402 client or your wallet. */
export interface Signer {
  /** Return the value of PAYMENT-SIGNATURE that pays `offer`, the pinned offer of `demand`. */
  sign(demand: Demand, offer: Offer, header: string): Promise<string>;
}

/** The most payments of calls without success that are remembered; then the oldest is forgotten. */
const UNSETTLED_MAX = 1000;

/** Pays demands, after checking each against the pin and its limits. */
export class Payer {
  readonly #pin: Pin;
  readonly #signer: Signer;
  /** The atoms of all signed payments. */
  spent = 0n;
  /** The payments of calls that have not succeeded, by Idempotency-Key, oldest first. */
  readonly #unsettled = new Map<string, Promise<string>>();

  constructor(pin: Pin, signer: Signer) {
    this.#pin = pin;
    this.#signer = signer;
  }

  /**
   * Return the PAYMENT-SIGNATURE of the call with `key` for the demand in `header`, a
   * PAYMENT-REQUIRED. A payment that was signed for this key, or is being signed, is returned again.
   * Throws WillNotPayError if no offer is for the pin or the signer throws an error, OverBudgetError
   * if the limits of the pin do not allow the offer.
   */
  async pay(header: string, key: string): Promise<string> {
    let payment = this.#unsettled.get(key);
    if (payment === undefined) {
      payment = this.#sign(header);
      this.#unsettled.set(key, payment);
      payment.catch(() => this.#unsettled.delete(key));
      for (const oldest of this.#unsettled.keys()) {
        if (this.#unsettled.size <= UNSETTLED_MAX) break;
        this.#unsettled.delete(oldest);
      }
    }
    return await payment;
  }

  async #sign(header: string): Promise<string> {
    const { network, asset, payTo, atomsPerPayment, atomsInAll } = this.#pin;
    const demand = parse(header);
    const offer = demand.accepts.find(
      (each) =>
        each.scheme === "exact" && each.network === network && each.asset === asset && each.payTo === payTo,
    );
    if (offer === undefined || !/^\d{1,20}$/.test(offer.amount)) {
      throw new WillNotPayError(`expected a demand for ${asset} to ${payTo} on ${network}; there was none`);
    }
    const atoms = BigInt(offer.amount);
    if (atoms > atomsPerPayment || this.spent + atoms > atomsInAll) {
      throw new OverBudgetError(
        `expected at most ${atomsPerPayment} atoms a payment and ${atomsInAll} in all;` +
          ` ${this.spent} are spent, ${atoms} more are asked for`,
      );
    }
    this.spent += atoms;
    try {
      return await this.#signer.sign(demand, offer, header);
    } catch (cause) {
      this.spent -= atoms;
      throw notSigned(cause);
    }
  }

  /** Return the payment of `key`, which may still land; null if none was signed. */
  async unsettled(key: string): Promise<string | null> {
    return (await this.#unsettled.get(key)?.catch(() => null)) ?? null;
  }

  /** Forget the payment of `key`: its call has succeeded. */
  settle(key: string): void {
    this.#unsettled.delete(key);
  }
}

/** Return the signed receipt in PAYMENT-RESPONSE, a JWS; null if it has no receipt. */
export function receiptOf(header: string | null): string | null {
  try {
    const signature = JSON.parse(atob(header ?? "")).extensions["offer-receipt"].info.receipt.signature;
    return typeof signature === "string" ? signature : null;
  } catch {
    return null;
  }
}

function parse(header: string): Demand {
  try {
    const bytes = Uint8Array.from(atob(header), (sign) => sign.charCodeAt(0));
    const demand = JSON.parse(new TextDecoder().decode(bytes)) as Demand;
    if (demand.x402Version === 2 && Array.isArray(demand.accepts)) return demand;
  } catch {
    // the error is thrown below
  }
  throw new WillNotPayError("expected PAYMENT-REQUIRED of x402 version 2");
}
