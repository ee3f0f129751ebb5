import type { Answer, Call } from "./call.ts";

/** A page that says where the next one begins. */
export interface Page {
  nextCursor: string | null;
}

/**
 * Every line of a listing: iterate over it, or over its `pages`. A page is asked for, and paid, when
 * its first line is needed; a budget bounds how many.
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

  /** Yield each page, from `cursor` on: the `nextCursor` of one, undefined for the first. */
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
