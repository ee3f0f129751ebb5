"""The SQL of the market: log, fold, coverage, mints, and deletion of old rows."""
