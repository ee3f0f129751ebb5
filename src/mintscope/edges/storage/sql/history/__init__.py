"""The past of mints on its way into the market, in SQL that both engines understand."""
