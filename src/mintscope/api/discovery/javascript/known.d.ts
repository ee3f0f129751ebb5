/** Throw for a field of `given` that is not among `names`: before anything is sent. */
export declare function known(given: object, names: readonly string[]): void;
