// Reads getBlock lines on stdin with solana-dex-parser; prints one line of JSON a trade.
// The parser is found from the folder given as the only argument.
const { DexParser } = require(require.resolve('solana-dex-parser', { paths: [process.argv[2]] }));
const parser = new DexParser();
const lines = require('fs').readFileSync(0, 'utf8').split('\n').filter(Boolean);
for (const line of lines) {
  const block = JSON.parse(line);
  for (const transaction of block.transactions) {
    const given = { ...transaction, slot: block.slot, blockTime: block.blockTime };
    // Aggregation counts a Jupiter route twice: once by its events, once by its pools.
    for (const trade of parser.parseAll(given, { aggregateTrades: false }).trades) {
      console.log(JSON.stringify({
        signature: transaction.transaction.signatures[0],
        at: trade.idx,
        program: trade.programId,
        amm: trade.amm,
        pool: trade.Pool?.[0] ?? null,
        user: trade.user,
        in_mint: trade.inputToken.mint,
        in_amount: trade.inputToken.amountRaw,
        out_mint: trade.outputToken.mint,
        out_amount: trade.outputToken.amountRaw,
      }));
    }
  }
}
