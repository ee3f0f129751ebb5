/** A stream while it is wanted: events become reports, a lost connection is opened again. */
import { type Transport } from "./transport.ts";
import type { LiveReport, ReportOptions } from "./types.ts";
/** Yield the report of each mint as it changes. Throws ClientError when the stream has ended. */
export declare function stream(transport: Transport, mints: readonly string[], options?: ReportOptions): AsyncGenerator<LiveReport, void, undefined>;
