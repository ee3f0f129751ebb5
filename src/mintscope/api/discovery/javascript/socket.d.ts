/** A WebSocket as a sequence of texts. */
export declare class SocketTexts {
    #private;
    /** Send `first` through `socket` once it is open. */
    constructor(socket: WebSocket, first: string);
    /** Return the next text, null after the end, undefined if nothing comes within `ms`. */
    next(ms: number): Promise<string | null | undefined>;
    close(): void;
}
