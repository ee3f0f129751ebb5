import { OverBudgetError } from "./errors.ts";

/** The most that calls may cost, in credits: asked before a call is sent. */
export class CreditBudget {
  readonly creditsPerCall: number;
  readonly creditsInAll: number;
  /** Credits of every call that was answered, and of those that may have been. */
  spent = 0;

  constructor(most: { creditsPerCall?: number; creditsInAll?: number } = {}) {
    this.creditsPerCall = most.creditsPerCall ?? Infinity;
    this.creditsInAll = most.creditsInAll ?? Infinity;
  }

  /** Count `credits` as spent if that is allowed. Throws OverBudgetError. */
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

  /** Count `credits` of what was reserved as unspent. */
  giveBack(credits: number): void {
    this.spent -= credits;
  }
}
