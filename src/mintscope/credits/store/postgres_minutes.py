"""Minutes of streams in PostgreSQL: the debits that start them, and those left behind."""

from typing import Final

from mintscope.credits.store.statements import COLUMNS, LEFT_MAX

# By the clock of the database.
NOW: Final = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

# As DEBIT, for minutes of streams: each is noted beside what it took, and others as sent.
PREPAY: Final = """
WITH answered AS (DELETE FROM credit_batch WHERE id = ANY(?5::bigint[])),
sent AS (DELETE FROM stream_minute WHERE id = ANY(?10::bigint[])),
taken AS MATERIALIZED (
    SELECT debit_for(?1::bigint[], ?6::bigint[], ?7::bigint[], ?8::bigint[], ?2::bigint,
                     ?9::bigint, NULL, NULL) AS debited),
begun AS (
    INSERT INTO stream_minute (id, writer, at, account, credits, api_key, month, endpoint)
    SELECT minute.id, ?4::bigint, ?2::bigint, (each ->> 0)::bigint, -(each ->> 1)::bigint,
           (each ->> 3)::bigint,
           CASE WHEN each ->> 3 IS NULL THEN NULL ELSE (each ->> 4)::bigint END,
           (each ->> 7)::bigint
      FROM taken
     CROSS JOIN json_array_elements(taken.debited::json) WITH ORDINALITY AS debit (each, place)
      JOIN unnest(?11::bigint[]) WITH ORDINALITY AS minute (id, place) USING (place)
     WHERE (each ->> 1)::bigint < 0)
INSERT INTO credit_batch (id, at, writer, spent, begun)
SELECT ?3::bigint, ?2::bigint, ?4::bigint, '[]', debited FROM taken
RETURNING begun
"""

CLEAR: Final = "DELETE FROM stream_minute WHERE id = ANY(?1::bigint[])"
TAKEN_FOR: Final = f"""
SELECT {COLUMNS} FROM stream_minute AS minute WHERE id = ANY(?1::bigint[])
"""  # noqa: S608 - a constant
# A writer that was forgotten has been dead for a day.
LEFT: Final = f"""
SELECT {COLUMNS} FROM stream_minute AS minute
  LEFT JOIN credit_writer AS known ON known.id = minute.writer
 WHERE coalesce(known.seen_at, 0) < {NOW} - ?1 ORDER BY minute.id LIMIT {LEFT_MAX}
"""  # noqa: S608 - constants
