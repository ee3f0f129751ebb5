// Runs `discovery check ADDRESS --json` for each address given; prints a line of JSON for each.
import { main } from "./node_modules/@agentcash/discovery/dist/cli.js";

const write = console.log;
for (const address of process.argv.slice(2)) {
  const printed = [];
  console.log = (...words) => printed.push(words.join(" "));
  const exitCode = await main(["check", address, "--json"]);
  if (exitCode !== 0) {
    throw new Error(`discovery check ${address} ended with ${exitCode}: ${printed.join("\n")}`);
  }
  write(JSON.stringify(JSON.parse(printed.join("\n"))));
}
