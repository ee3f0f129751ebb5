import type { Answer, Call } from "./call.ts";

/** A page with the cursor of the next page; the cursor is null on the last page. */
export interface Page {
  nextCursor: string | null;
}

/**
 * All lines of a listing, page by page: iterate over this object, or over its `pages`. A page is
 * requested, and paid for, when its first line is needed; the budget limits the cost.
 */
export class PagedLines<P extends Page, Line> implements AsyncIterable<Line> {
  readonly #send: (call: Call<P>) => Promise<Answer<P>>;
  readonly #callAt: (cursor: string | undefined) => Call<P>;
  readonly #lines: (page: P) => readonly Line[];

  constructor(
    send: (call: Call<P>) => Promise<Answer<P>>,
    callAt: (cursor: string | undefined) => Call<P>,
    lines: (page: P) => readonly Line[],
  ) {
    this.#send = send;
    this.#callAt = callAt;
    this.#lines = lines;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Line, void, undefined> {
    for await (const page of this.pages()) yield* this.#lines(page);
  }

  /** Yield the pages from the one at `cursor`, a `nextCursor`; undefined: from the first page. */
  async *pages(cursor?: string): AsyncGenerator<P, void, undefined> {
    for (let at = cursor; ; ) {
      const page: P = (await this.#send(this.#callAt(at))).data;
      yield page;
      if (page.nextCursor === null) return;
      at = page.nextCursor;
    }
  }

  /** Return the first page. */
  async first(): Promise<P> {
    return (await this.#send(this.#callAt(undefined))).data;
  }
}
