/** Throw a TypeError if `given` has a field that is not in `names`. */
export function known(given: object, names: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new TypeError(`expected fields among ${names.join(", ")}; was ${name}`);
  }
}
