/** Throw for a field of `given` that is not among `names`: before anything is sent. */
export function known(given: object, names: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new TypeError(`expected fields among ${names.join(", ")}; was ${name}`);
  }
}
