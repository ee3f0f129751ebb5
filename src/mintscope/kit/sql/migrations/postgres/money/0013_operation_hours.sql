-- least: 1
-- Numbers of each hour (UTC, since 1970-01-01), of all processes together.
CREATE TABLE operation_hour (
    hour   bigint NOT NULL,
    series text   NOT NULL,
    value  bigint NOT NULL,
    PRIMARY KEY (hour, series)
);
