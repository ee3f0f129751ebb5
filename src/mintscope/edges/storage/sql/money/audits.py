"""Statements that select what contradicts the books, in what is new and in all there is.

Of the journal they read what came after the entry `:after`, of payments those that `which` says.
"""

from typing import Final

ISSUED_IS_ENTERED: Final = """
SELECT p.signature FROM payment AS p LEFT JOIN credit_entry AS e ON e.id = p.entry
 WHERE {which} AND p.credits > 0 AND p.state = 'issued'
   AND (e.id IS NULL OR e.delta <> p.credits
        OR e.kind <> CASE WHEN p.token_hash IS NULL THEN 'top_up' ELSE 'payment' END
        OR (e.account <> p.account AND e.account NOT IN (
            WITH RECURSIVE successors (id) AS (
                SELECT successor FROM credit_account WHERE id = p.account AND p.token_hash IS NULL
                 UNION
                SELECT a.successor FROM successors JOIN credit_account AS a ON a.id = successors.id)
            SELECT id FROM successors WHERE id IS NOT NULL)))
"""
PAID_IS_ENOUGH: Final = """
SELECT p.signature FROM payment AS p WHERE {which} AND p.state = 'issued' AND p.paid < p.amount
"""
ENTRY_IS_PAID: Final = """
SELECT e.id FROM credit_entry AS e LEFT JOIN payment AS p ON p.entry = e.id
 WHERE e.id > :after AND e.kind IN ('payment', 'top_up')
   AND (p.id IS NULL OR p.state NOT IN ('issued', 'frozen'))
"""
MOVES_CANCEL: Final = """
SELECT m.id FROM credit_move AS m
  JOIN credit_entry AS off_ ON off_.id = m.off_entry
  JOIN credit_entry AS onto_ ON onto_.id = m.onto_entry
 WHERE {which}
   AND (off_.kind <> 'rotate' OR onto_.kind <> 'rotate' OR off_.delta >= 0
        OR off_.delta + onto_.delta <> 0)
"""
