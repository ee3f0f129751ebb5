"""Tables of PostgreSQL with many rows, for tests of query plans."""

from typing import Final

# The statements that fill a table with n rows; all numbers of a row derive from its row number.
FILL: Final = {
    "credit_account": "(id, token_hash, hint, note, issued_at, balance)"
    " SELECT n, sha256(n::text::bytea), lpad(to_hex(n), 8, '0'), '', n, 5",
    "credit_entry": "(id, account, kind, delta, balance, at)"
    " SELECT n, n % 1000 + 1, CASE n % 50 WHEN 0 THEN 'grant' ELSE 'spend' END,"
    " CASE n % 50 WHEN 0 THEN 1 ELSE -1 END, 5, n",
    "credit_day": "(account, day, credits) SELECT n % 1000 + 1, n, 1",
    "credit_received": "(account, credits) SELECT n, 1",
    "closed_balance": "(account, month, received, spent, spend_count, first_entry, last_entry,"
    " balance) SELECT n, 24000, 1, 1, 1, n, n, 5",
    "audit_balance": "(account, walk, balance) SELECT n, 1, 5",
    "payment": "(id, message_hash, signature, payer, address, resource, amount, credits,"
    " token_hash, hint, account, holder, entry, key_hash, fee_lamports, last_valid_height,"
    " begun_at, lease_until, state, paid, final, resolved, resolved_at)"
    " SELECT n, sha256(n::text::bytea), 's' || n, 'p' || n, 'a' || n, '/', 1, 1,"
    " sha256(n::text::bytea), 'h', n, n, n, sha256('k' || n::text::bytea), 1, 1, n, n, 'issued', 1,"
    " 1, n, n",
    "account_event": "(id, at, actor, action, subject) SELECT n, n, 'user:' || n % 1000, 'a',"
    " 'user:' || n % 1000",
    '"user"': "(id, kind, username, email, created_at) SELECT n, 'agent', 'u' || n, 'e' || n, n",
    "api_key": '(id, "user", key_hash, hint, name, scopes, created_at)'
    " SELECT n, n, sha256(n::text::bytea), '', '', '[]', n",
    "key_month": "(api_key, month, credits) SELECT n, 24000, 1",
    "mint": "(id, address, since_slot) SELECT n, 'm' || n, CASE n % 50 WHEN 0 THEN n END",
    "mint_fact": "(mint, slot, read_at_ms) SELECT n, n, n",
    "spend_alert": '("user", credits, told_day, is_due) SELECT n, 1, n, CASE n % 1000 WHEN 0 THEN 1'
    " ELSE 0 END",
    "usage_day": "(account, day, api_key, endpoint, requests, credits)"
    " SELECT n % 1000 + 1, n, 0, 0, 1, 1",
    "kept_answer": "(name, account, at) SELECT n::text, n % 1000 + 1, n",
    "made_thing": "(key_hash, asked, thing, made_at) SELECT sha256(n::text::bytea), '', n, n",
    "activity": "(mint, day, swaps, volume) SELECT n, n, 1, 1",
    "candle": "(mint, timeframe, bucket, buy_volume, sell_volume, count)"
    " SELECT n % 1000 + 1, 'm1', n, 1, 1, 1",
    "waypoint": "(mint, timeframe, bucket, closed, acc) SELECT n % 1000 + 1, 'm1', n, 1, ''",
}
