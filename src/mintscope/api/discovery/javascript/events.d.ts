/** One server-sent event. */
export interface ServerEvent {
    name: string;
    data: string;
}
/** Takes text as it comes, gives the events that are whole (WHATWG HTML, section 9.2). */
export declare class EventReader {
    #private;
    /** The Last-Event-ID to send when the connection was lost. */
    lastId: string | null;
    /** How long to wait before, where the service has said. */
    retryMs: number;
    /** Forget what was not whole when a connection was lost. */
    restart(): void;
    /** Yield the events that `text` completes. Throws UnreadableError. */
    feed(text: string): Generator<ServerEvent, void, undefined>;
}
