-- Not logged: limits begin afresh after a crash or a failover, and cost no flush meanwhile.
CREATE UNLOGGED TABLE limit_window (
    key         bytea    PRIMARY KEY,
    admitted_us bigint[] NOT NULL,      -- times of the admissions that count, the oldest first
    ends_us     bigint   NOT NULL,      -- from then on none counts
    -- Of the last call: what it asked, when, and how many admissions counted before it took any.
    count       bigint   NOT NULL,
    window_us   bigint   NOT NULL,
    returned    bigint   NOT NULL,
    taken       bigint   NOT NULL,
    asked_us    bigint   NOT NULL,
    held        bigint   NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
