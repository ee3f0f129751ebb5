-- least: 1
-- What the payment token is worth, as all api processes sell at it for a minute.
CREATE TABLE token_price (
    id          bigint PRIMARY KEY CHECK (id = 1),
    usd         text   NOT NULL,        -- exact, in decimal digits
    observed_at bigint NOT NULL,
    read_at     bigint NOT NULL         -- by the clock of the database
);
