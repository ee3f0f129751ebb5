-- Numbers of each hour (UTC, since 1970-01-01), of all processes together.
CREATE TABLE operation_hour (
    hour   INTEGER NOT NULL,
    series TEXT    NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (hour, series)
) STRICT, WITHOUT ROWID;
