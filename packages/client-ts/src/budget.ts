import { OverBudgetError } from "./errors.ts";

/** The limits of the credits that calls can cost, checked before a call is sent. */
export class CreditBudget {
  readonly creditsPerCall: number;
  readonly creditsInAll: number;
  /**
   * The credits of all calls that have succeeded, that may have succeeded, or that have no answer
   * yet; a call counts once, however often it is repeated.
   */
  spent = 0;

  constructor(most: { creditsPerCall?: number; creditsInAll?: number } = {}) {
    this.creditsPerCall = most.creditsPerCall ?? Infinity;
    this.creditsInAll = most.creditsInAll ?? Infinity;
  }

  /** Count `credits` as spent. Throws OverBudgetError if a limit does not allow it. */
  reserve(credits: number): void {
    if (credits > this.creditsPerCall) {
      throw new OverBudgetError(
        `expected a call of at most ${this.creditsPerCall} credits; this one may cost ${credits}`,
      );
    }
    if (credits > 0 && this.spent + credits > this.creditsInAll) {
      throw new OverBudgetError(
        `expected at most ${this.creditsInAll} credits in all; ${this.spent} are spent,` +
          ` this call may cost ${credits}`,
      );
    }
    this.spent += credits;
  }

  /** Count `credits` of the reserved credits as unspent. */
  giveBack(credits: number): void {
    this.spent -= credits;
  }
}
