/** Throw for a field of `given` that is not among `names`: before anything is sent. */
export function known(given, names) {
    for (const name of Object.keys(given)) {
        if (!names.includes(name))
            throw new TypeError(`expected fields among ${names.join(", ")}; was ${name}`);
    }
}
