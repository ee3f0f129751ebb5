// Times solana-dex-parser on a file of getBlock entries, one a line, as it reads them from JSON:
// node decode.mjs FILE ROUNDS.  Prints the best round: {"seconds": ..., "trades": ...}.
import { readFileSync } from "node:fs";
import { DexParser } from "solana-dex-parser";

const [file, rounds] = process.argv.slice(2);
const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
const parser = new DexParser();
let best = Infinity;
let trades = 0;

for (let round = 0; round < Number(rounds); round += 1) {
  const start = process.cpuUsage();
  trades = 0;
  for (const line of lines) {
    const entry = JSON.parse(line);
    entry.slot ??= 0;
    trades += parser.parseAll(entry, { aggregateTrades: false }).trades.length;
  }
  const { user, system } = process.cpuUsage(start);
  best = Math.min(best, (user + system) / 1e6);
}
console.log(JSON.stringify({ seconds: best, trades }));
