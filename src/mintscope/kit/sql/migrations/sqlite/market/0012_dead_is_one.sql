-- Statements say `is_dead = 0`, as every engine understands it; an index is used by the same words.
DROP INDEX header_alive;
CREATE UNIQUE INDEX header_alive ON header (slot) WHERE is_dead = 0;
DROP INDEX header_dead;
CREATE INDEX header_dead ON header (seq) WHERE is_dead = 1;
