CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL) STRICT;
INSERT INTO "migration" VALUES (1, '0001_credits.sql', 'money');
INSERT INTO "migration" VALUES (100, '0100_payments.sql', 'money');
INSERT INTO "migration" VALUES (101, '0101_statement.sql', 'money');
INSERT INTO "migration" VALUES (102, '0102_audits.sql', 'money');
INSERT INTO "migration" VALUES (103, '0103_rotation_roots.sql', 'money');
INSERT INTO "migration" VALUES (104, '0104_orphans.sql', 'money');
INSERT INTO "migration" VALUES (105, '0105_quotes.sql', 'money');
INSERT INTO "migration" VALUES (106, '0106_reverts_of_a_day.sql', 'money');
INSERT INTO "migration" VALUES (107, '0107_assets_of_payments.sql', 'money');
INSERT INTO "migration" VALUES (200, '0200_accounts.sql', 'money');
INSERT INTO "migration" VALUES (201, '0201_account_credits.sql', 'money');
INSERT INTO "migration" VALUES (202, '0202_payments_of_wallets.sql', 'money');
INSERT INTO "migration" VALUES (203, '0203_watchlists.sql', 'money');
INSERT INTO "migration" VALUES (204, '0204_addresses.sql', 'money');
INSERT INTO "migration" VALUES (205, '0205_days_of_use.sql', 'money');
INSERT INTO "migration" VALUES (206, '0206_second_factor.sql', 'money');
INSERT INTO "migration" VALUES (207, '0207_operation_hours.sql', 'money');
INSERT INTO "migration" VALUES (300, '0300_signals.sql', 'money');
INSERT INTO "migration" VALUES (301, '0301_stream_minutes.sql', 'money');
INSERT INTO "migration" VALUES (302, '0302_waiting_webhooks.sql', 'money');
CREATE TABLE credit_account (
    id         INTEGER PRIMARY KEY,
    token_hash BLOB    NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    hint       TEXT    NOT NULL,               -- the token's last eight characters
    note       TEXT    NOT NULL,
    issued_at  INTEGER NOT NULL,
    balance    INTEGER NOT NULL DEFAULT 0 CHECK (balance >= 0)
, successor INTEGER REFERENCES credit_account, root INTEGER REFERENCES credit_account, wallet TEXT, owner INTEGER REFERENCES user) STRICT;
INSERT INTO "credit_account" VALUES (1, X'7304A11CDA33EEC9B2F42AE843DD9654C9ABBD943F75E98F7C88DEEC372893EC', '78c98dcd', 'demo', 1795374576528, 99, NULL, NULL, NULL, NULL);
INSERT INTO "credit_account" VALUES (2, X'8026C426806F035BD1D358E0A244735EA2F4998C7587B6AFE56C26A0C3F21B58', '8cf907de', '', 1795374595361, 0, NULL, NULL, NULL, NULL);
CREATE TABLE credit_entry (
    id      INTEGER PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES credit_account,
    kind    TEXT    NOT NULL CHECK (
        kind IN ('payment', 'grant', 'top_up', 'rotate', 'reversal', 'thaw', 'spend', 'freeze')),
    delta   INTEGER NOT NULL CHECK (
        CASE WHEN kind IN ('spend', 'freeze') THEN delta < 0
             WHEN kind = 'rotate' THEN delta <> 0 ELSE delta > 0 END),
    balance INTEGER NOT NULL CHECK (balance >= 0),  -- after this entry
    at      INTEGER NOT NULL
, api_key INTEGER REFERENCES api_key, month INTEGER CHECK ((month IS NULL) = (api_key IS NULL))) STRICT;
INSERT INTO "credit_entry" VALUES (1, 1, 'grant', 100, 100, 1795374576528, NULL, NULL);
INSERT INTO "credit_entry" VALUES (2, 2, 'payment', 10, 10, 1795374595361, NULL, NULL);
INSERT INTO "credit_entry" VALUES (3, 2, 'spend', -1, 9, 1795374595370, NULL, NULL);
INSERT INTO "credit_entry" VALUES (4, 2, 'spend', -1, 8, 1795374595381, NULL, NULL);
INSERT INTO "credit_entry" VALUES (5, 2, 'spend', -1, 7, 1795374595385, NULL, NULL);
INSERT INTO "credit_entry" VALUES (6, 2, 'spend', -1, 6, 1795374595392, NULL, NULL);
INSERT INTO "credit_entry" VALUES (7, 2, 'spend', -1, 5, 1795374595400, NULL, NULL);
INSERT INTO "credit_entry" VALUES (8, 2, 'spend', -1, 4, 1795374595448, NULL, NULL);
INSERT INTO "credit_entry" VALUES (9, 2, 'spend', -1, 3, 1795374595461, NULL, NULL);
INSERT INTO "credit_entry" VALUES (10, 2, 'spend', -1, 2, 1795374595470, NULL, NULL);
INSERT INTO "credit_entry" VALUES (11, 2, 'spend', -1, 1, 1795374595478, NULL, NULL);
INSERT INTO "credit_entry" VALUES (12, 2, 'spend', -1, 0, 1795374595482, NULL, NULL);
INSERT INTO "credit_entry" VALUES (13, 1, 'spend', -1, 99, 1795374611889, NULL, NULL);
CREATE TABLE pepper (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    check_hash BLOB NOT NULL
) STRICT;
INSERT INTO "pepper" VALUES (1, X'9AED496E8E8B8A412904EDAEFE581A7BF6E953A9AE8F54CB95A54CD2C69AB846');
CREATE TABLE payment (
    id                INTEGER PRIMARY KEY,
    message_hash      BLOB    NOT NULL UNIQUE CHECK (length(message_hash) = 32),
    signature         TEXT    NOT NULL UNIQUE,
    payer             TEXT    NOT NULL,
    address           TEXT    NOT NULL,           -- the client's, for its failure budget
    resource          TEXT    NOT NULL,
    amount            INTEGER NOT NULL CHECK (amount > 0),
    credits           INTEGER NOT NULL CHECK (credits >= 0),      -- 0: a report
    body              BLOB,                       -- of a report, until it is forgotten
    token_hash        BLOB    UNIQUE CHECK (length(token_hash) = 32),
    hint              TEXT,
    account           INTEGER REFERENCES credit_account,  -- of a new token: once it is issued
    holder            INTEGER REFERENCES credit_account,  -- where its credits are now
    rotated_at        INTEGER,
    entry             INTEGER UNIQUE REFERENCES credit_entry,     -- which handed the credits out
    frozen            INTEGER NOT NULL DEFAULT 0 CHECK (frozen >= 0),  -- credits taken back
    key_hash          BLOB    NOT NULL CHECK (length(key_hash) = 32),
    fee_lamports      INTEGER NOT NULL,
    last_valid_height INTEGER NOT NULL,
    begun_at          INTEGER NOT NULL,
    lease_until       INTEGER NOT NULL,
    state             TEXT    NOT NULL CHECK (state IN ('pending', 'issued', 'failed', 'frozen')),
    paid              INTEGER NOT NULL CHECK (state <> 'issued' OR paid >= amount),
    reason            TEXT             CHECK ((reason IS NULL) = (state IN ('pending', 'issued'))),
    final             INTEGER NOT NULL CHECK (final IN (0, 1) AND (state <> 'pending' OR final = 0)),
    resolved          INTEGER NOT NULL DEFAULT 0, -- counts changes of state; 0: none yet
    resolved_at       INTEGER, missed_height INTEGER NOT NULL DEFAULT 0 CHECK (missed_height >= 0), quote BLOB, asset TEXT,
    CHECK ((token_hash IS NULL) = (hint IS NULL)),
    CHECK (credits = 0 OR body IS NULL),
    CHECK (credits = 0 OR token_hash IS NOT NULL OR account IS NOT NULL),
    CHECK (state <> 'issued' OR credits = 0 OR entry IS NOT NULL)
) STRICT;
INSERT INTO "payment" VALUES (1, X'0B7714966447BE99298E344D4A3CD5697DD7840D3E01EB3A03312DB7BE83F2EB', '3b9xBKSsXt7HN336CbkbU1o1P4SZ7ds286e3pNuvdMJYkGpB3wwb8zxDoQSiq41PRYunAo8HULKy8kgfr76Wp9H2', 'JxLjidTNDpfpXmcTQYBvBxA7ZyAhqYRJeqCejWBT8PV', '127.0.0.1', '/v1/token/So11111111111111111111111111111111111111112', 2500, 0, X'33383030303030363320313739353337343539323030300A7B22746F6B656E223A22536F3131313131313131313131313131313131313131313131313131313131313131313131313131313132222C227072696365223A7B22757364223A3136322E313131353134313436323836312C22736F6C223A312E307D2C22696E64696361746F7273223A7B226D31223A7B22656D6139223A3136312E37363438323530323439363334312C22656D613231223A3136312E37393437333335373736333432352C22656D613530223A6E756C6C2C22656D61323030223A6E756C6C2C22727369223A35322E33383832393833333430363839372C226D616364223A6E756C6C2C226669626F6E61636369223A7B227377696E6748696768223A3136352E32343131393135313630373935372C227377696E674C6F77223A3135382E313037383033383537343237342C226C6576656C323336223A3136332E35353737313230323836333736372C226C6576656C333832223A3136322E35313632333734333034373434332C226C6576656C353030223A3136312E36373434393736383637353334382C226C6576656C363138223A3136302E38333237353739343330333235332C226C6576656C373634223A3135392E373931323833333434383639332C2265787431323732223A3136372E31383134373239353932333239362C2265787431363138223A3136392E363439363235303839313236362C2265787432303030223A3137322E33373435373931373437333137342C2265787432363138223A3137362E37383330313237343737373837377D7D2C226D35223A7B22656D6139223A6E756C6C2C22656D613231223A6E756C6C2C22656D613530223A6E756C6C2C22656D61323030223A6E756C6C2C22727369223A6E756C6C2C226D616364223A6E756C6C2C226669626F6E61636369223A7B227377696E6748696768223A3136352E32343131393135313630373935372C227377696E674C6F77223A3135382E313037383033383537343237342C226C6576656C323336223A3136332E35353737313230323836333736372C226C6576656C333832223A3136322E35313632333734333034373434332C226C6576656C353030223A3136312E36373434393736383637353334382C226C6576656C363138223A3136302E38333237353739343330333235332C226C6576656C373634223A3135392E373931323833333434383639332C2265787431323732223A3136372E31383134373239353932333239362C2265787431363138223A3136392E363439363235303839313236362C2265787432303030223A3137322E33373435373931373437333137342C2265787432363138223A3137362E37383330313237343737373837377D7D2C226D3135223A7B22656D6139223A6E756C6C2C22656D613231223A6E756C6C2C22656D613530223A6E756C6C2C22656D61323030223A6E756C6C2C22727369223A6E756C6C2C226D616364223A6E756C6C2C226669626F6E61636369223A7B227377696E6748696768223A3136352E32343131393135313630373935372C227377696E674C6F77223A3135382E313037383033383537343237342C226C6576656C323336223A3136332E35353737313230323836333736372C226C6576656C333832223A3136322E35313632333734333034373434332C226C6576656C353030223A3136312E36373434393736383637353334382C226C6576656C363138223A3136302E38333237353739343330333235332C226C6576656C373634223A3135392E373931323833333434383639332C2265787431323732223A3136372E31383134373239353932333239362C2265787431363138223A3136392E363439363235303839313236362C2265787432303030223A3137322E33373435373931373437333137342C2265787432363138223A3137362E37383330313237343737373837377D7D2C226831223A7B22656D6139223A6E756C6C2C22656D613231223A6E756C6C2C22656D613530223A6E756C6C2C22656D61323030223A6E756C6C2C22727369223A6E756C6C2C226D616364223A6E756C6C2C226669626F6E61636369223A7B227377696E6748696768223A3136352E32343131393135313630373935372C227377696E674C6F77223A3135382E313037383033383537343237342C226C6576656C323336223A3136332E35353737313230323836333736372C226C6576656C333832223A3136322E35313632333734333034373434332C226C6576656C353030223A3136312E36373434393736383637353334382C226C6576656C363138223A3136302E38333237353739343330333235332C226C6576656C373634223A3135392E373931323833333434383639332C2265787431323732223A3136372E31383134373239353932333239362C2265787431363138223A3136392E363439363235303839313236362C2265787432303030223A3137322E33373435373931373437333137342C2265787432363138223A3137362E37383330313237343737373837377D7D2C2262757953656C6C5072657373757265223A7B226D31223A302E34393835373033393737383535343939362C226D35223A302E353036333039343135303838353334392C226D3135223A302E34393339373237323832343730393131352C226831223A302E353039333238363931303437353636342C226834223A302E353039333238363931303437353636342C226431223A302E353039333238363931303437353636347D7D2C22646174615370616E223A7B2266726F6D223A313739353337323836302C22746F223A313739353337343539322C2263616E646C65436F756E7473223A7B226D31223A32392C226D35223A362C226D3135223A332C226831223A327D7D7D', NULL, NULL, NULL, NULL, NULL, NULL, 0, X'C9E171BD3417651F755478AD0A9518452FBAA1BA2D83EE975A448C5CC7E9BFF7', 10001, 358000269, 1795374593125, 1795374624550, 'issued', 2500, NULL, 1, 1, 1795374594171, 0, NULL, NULL);
INSERT INTO "payment" VALUES (2, X'EC2CD1AA3AE1D85610A6C0DD27F10E0B95AD356A49A34C6E883F76EE68D9E444', '4szZz6iqnwoofQecEr3k8w1cJ95t4Ge1AsrqfXnsqYMmBjZBZnVdAzGwoBPNJ5qxgGwEcYvXjdwG6guTDXcfdKmj', 'JxLjidTNDpfpXmcTQYBvBxA7ZyAhqYRJeqCejWBT8PV', '127.0.0.1', '/v1/credits/purchase?bundle=10', 25000, 10, NULL, X'8026C426806F035BD1D358E0A244735EA2F4998C7587B6AFE56C26A0C3F21B58', '8cf907de', 2, 2, NULL, 2, 0, X'1AA739788076E121525C1BE62F5C87947268CF55C66909CA9482D8F15FDA5989', 10001, 358000272, 1795374594215, 1795374625584, 'issued', 25000, NULL, 1, 2, 1795374595361, 0, NULL, NULL);
CREATE TABLE sales_stop (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    at  INTEGER NOT NULL,
    why TEXT    NOT NULL
) STRICT;
CREATE TABLE doubt (
    signature TEXT    PRIMARY KEY,
    kind      TEXT    NOT NULL CHECK (kind IN ('arrived', 'issued')),
    first_at  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    looks     INTEGER NOT NULL,
    look_at   INTEGER NOT NULL   -- the next time
) STRICT, WITHOUT ROWID;
CREATE TABLE fee_fund (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    lamports INTEGER NOT NULL
) STRICT;
INSERT INTO "fee_fund" VALUES (1, 9999979998);
CREATE TABLE user (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind          TEXT    NOT NULL CHECK (kind IN ('person', 'agent')),
    username      TEXT    NOT NULL UNIQUE,
    email         TEXT    NOT NULL,
    verified_at   INTEGER,
    password_hash TEXT,
    administrator INTEGER NOT NULL DEFAULT 0 CHECK (administrator IN (0, 1)),
    created_at    INTEGER NOT NULL,
    removed_at    INTEGER,
    CHECK ((password_hash IS NULL) = (kind = 'agent')),
    CHECK (administrator = 0 OR kind = 'person')
) STRICT;
INSERT INTO "user" VALUES (1, 'person', 'admin-346c881b', 'admin@example.org', NULL, '$argon2id$v=19$m=19456,t=2,p=1$TOw6CZMdbJpt79csYpjSEw$dcjZR/RyDUnXeZlHxM3LszQroOKjOrLHckjqLGHHQXE', 1, 1795374585180, NULL);
INSERT INTO "user" VALUES (2, 'agent', 'agent-3c977dd7', 'agent@example.org', 1795374595650, NULL, 0, 1795374605460, NULL);
CREATE TABLE application (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    email          TEXT    NOT NULL UNIQUE,
    telegram       TEXT,
    twitter        TEXT,
    user_type      TEXT    NOT NULL CHECK (user_type IN ('trader', 'provider', 'both')),
    motivation     TEXT    NOT NULL,
    secret_hash    BLOB    NOT NULL CHECK (length(secret_hash) = 32),
    secret_nonce   BLOB    NOT NULL,
    signup_redeem  BLOB,                            -- hash of the Idempotency-Key of the signup
    state          TEXT    NOT NULL CHECK (state IN (
        'awaiting_confirmation', 'awaiting_approval', 'approved', 'rejected', 'key_issued')),
    applied_at     INTEGER NOT NULL,
    confirmed_at   INTEGER,
    decided_at     INTEGER,
    decided_by     TEXT,
    scopes         TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(scopes)),
    note           TEXT    NOT NULL DEFAULT '',
    user           INTEGER REFERENCES user,
    issued_at      INTEGER,
    key_nonce      BLOB,
    exchange_redeem BLOB,                           -- hash of the Idempotency-Key of the exchange
    CHECK ((state = 'key_issued') = (issued_at IS NOT NULL)),
    CHECK ((state = 'key_issued') = (key_nonce IS NOT NULL)),
    CHECK (state <> 'key_issued' OR user IS NOT NULL),
    CHECK ((decided_at IS NULL) = (state IN ('awaiting_confirmation', 'awaiting_approval')))
) STRICT;
INSERT INTO "application" VALUES (1, 'agent@example.org', NULL, NULL, 'trader', 'I trade by myself and want to read signals and place orders.', X'AFE092494CCAA084279B329B27A67701DC30838ADC0E2B3FBF2490CD05129509', X'8197AA5F21BFEFDB0E2D1A1C3BE12F9CFDE231E882B836598A8D7FE55BB3ABE8', X'41733A761DD203D4B9EE4C89771162253524A82BC5F02D6AF41D03F1F2399DB5', 'key_issued', 1795374595561, 1795374595650, 1795374598628, 'command line', '["trade:write"]', '', 2, 1795374605460, X'1F527A9A50F7502B2CFE0426834EB4151AC182461DE6474BBA0BCD75674D832E', NULL);
INSERT INTO "application" VALUES (2, 'waiting@example.org', NULL, NULL, 'trader', 'I trade by myself and want to read signals and place orders.', X'603AC51D9E1B46C3ECBFC98A8A24A7F0F84833BA33AEE6663CF6056DEF6C898F', X'FAB99CB339C07ECD62309ABAE5520DB0AC191A30EAD9024BE4FA58221DD50E75', X'CD148ADA5BEA6DA27C23CBF74F5DB162319F8C10C989341CF336CB0CA3344F17', 'awaiting_approval', 1795374599441, 1795374599451, NULL, NULL, '[]', '', NULL, NULL, NULL, NULL);
INSERT INTO "application" VALUES (3, 'approved@example.org', NULL, NULL, 'trader', 'I trade by myself and want to read signals and place orders.', X'13380C7D6AD99E51F7A532E59F11E173F90688036495D15FFF067AF868B3C71C', X'937C8C121FF7B96241C73BBBDF144858748775276A1EFEEA616FE03762090FED', X'DD6017C9434B3807BA6C5191B3655928AFD3DC9BD270B63BC22263F6A921C86C', 'approved', 1795374605466, 1795374605487, 1795374609740, 'command line', '[]', '', NULL, NULL, NULL, NULL);
CREATE TABLE api_key (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user         INTEGER NOT NULL REFERENCES user,
    application  INTEGER,                           -- whose secret it was exchanged for
    key_hash     BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    hint         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL CHECK (json_valid(scopes)),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER,
    replaced_by  INTEGER REFERENCES api_key
, month_credits_max INTEGER CHECK (month_credits_max >= 0)) STRICT;
INSERT INTO "api_key" VALUES (1, 2, 1, X'5BF6F94690B394660BEBFDA41C5957ED0D14B92823754C0BB9D5F1F29DE811FA', '...3945e65d', 'agent signup', '["trade:read","trade:write","wallets:read","signals:read","groups:read"]', 1795374605460, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE session (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    cookie_hash BLOB    NOT NULL UNIQUE CHECK (length(cookie_hash) = 32),
    user        INTEGER NOT NULL REFERENCES user,
    created_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    proved_at   INTEGER NOT NULL,
    address     TEXT    NOT NULL,
    agent       TEXT    NOT NULL
) STRICT;
CREATE TABLE letter (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT    NOT NULL,
    recipient   TEXT    NOT NULL,
    facts       TEXT    NOT NULL CHECK (json_valid(facts)),
    proof       INTEGER REFERENCES proof ON DELETE SET NULL,
    written_at  INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,                   -- when it is tried next
    attempts    INTEGER NOT NULL DEFAULT 0,
    sent_at     INTEGER,
    given_up_at INTEGER,
    reason      TEXT                                -- why the last attempt failed
) STRICT;
INSERT INTO "letter" VALUES (1, 'confirm_application', 'agent@example.org', '{}', 1, 1795374595561, 1795374595561, 0, NULL, 1795374595941, 'its link is not good any more');
INSERT INTO "letter" VALUES (2, 'application_approved', 'agent@example.org', '{"scopes":"trade:read, trade:write, wallets:read, signals:read, groups:read"}', NULL, 1795374598628, 1795374658958, 1, 1795374598969, NULL, NULL);
INSERT INTO "letter" VALUES (3, 'confirm_application', 'waiting@example.org', '{}', 2, 1795374599441, 1795374599441, 0, NULL, 1795374599473, 'its link is not good any more');
INSERT INTO "letter" VALUES (4, 'new_key', 'agent@example.org', '{"hint":"...3945e65d","scopes":"trade:read, trade:write, wallets:read, signals:read, groups:read"}', NULL, 1795374605460, 1795374665484, 1, 1795374605490, NULL, NULL);
INSERT INTO "letter" VALUES (5, 'confirm_application', 'approved@example.org', '{}', 3, 1795374605466, 1795374665484, 1, 1795374605490, NULL, NULL);
INSERT INTO "letter" VALUES (6, 'application_approved', 'approved@example.org', '{"scopes":"trade:read, wallets:read, signals:read, groups:read"}', NULL, 1795374609740, 1795374670017, 1, 1795374610019, NULL, NULL);
CREATE TABLE account_event (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,                       -- 'user:7', 'command line', 'service'
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,                       -- 'application:3', 'user:7', 'key:5'
    detail  TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(detail))
) STRICT;
INSERT INTO "account_event" VALUES (1, 1795374585180, 'command line', 'created', 'user:1', '{}');
INSERT INTO "account_event" VALUES (2, 1795374585180, 'command line', 'made administrator', 'user:1', '{}');
INSERT INTO "account_event" VALUES (3, 1795374595561, 'applicant', 'applied', 'application:1', '{}');
INSERT INTO "account_event" VALUES (4, 1795374595650, 'applicant', 'confirmed', 'application:1', '{}');
INSERT INTO "account_event" VALUES (5, 1795374598628, 'command line', 'approved', 'application:1', '{"scopes":"trade:read, trade:write, wallets:read, signals:read, groups:read"}');
INSERT INTO "account_event" VALUES (6, 1795374599441, 'applicant', 'applied', 'application:2', '{}');
INSERT INTO "account_event" VALUES (7, 1795374599451, 'applicant', 'confirmed', 'application:2', '{}');
INSERT INTO "account_event" VALUES (8, 1795374605460, 'applicant', 'created', 'user:2', '{"because":"application:1"}');
INSERT INTO "account_event" VALUES (9, 1795374605460, 'applicant', 'issued', 'key:1', '{"because":"application:1"}');
INSERT INTO "account_event" VALUES (10, 1795374605466, 'applicant', 'applied', 'application:3', '{}');
INSERT INTO "account_event" VALUES (11, 1795374605487, 'applicant', 'confirmed', 'application:3', '{}');
INSERT INTO "account_event" VALUES (12, 1795374609740, 'command line', 'approved', 'application:3', '{"scopes":"trade:read, wallets:read, signals:read, groups:read"}');
CREATE TABLE orphan (
    signature       TEXT    PRIMARY KEY,
    payer           TEXT,                                 -- NULL: it carries no quote of ours
    amount          INTEGER,
    bought          TEXT,                                 -- the resource
    found_at        INTEGER NOT NULL,
    acknowledged_at INTEGER,                              -- when an operator settled it otherwise
    note            TEXT, asset TEXT,
    CHECK ((acknowledged_at IS NULL) = (note IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE "treasury_scan" (
    scope       TEXT    PRIMARY KEY,
    mark        TEXT,
    head        TEXT,
    cursor      TEXT,
    finished_at INTEGER          -- of the last scan of what is new; NULL for 'all' while under way
) STRICT, WITHOUT ROWID;
INSERT INTO "treasury_scan" VALUES ('all', NULL, NULL, NULL, 1795374591505);
INSERT INTO "treasury_scan" VALUES ('new', NULL, NULL, NULL, 1795374591495);
CREATE TABLE key_month (
    api_key INTEGER NOT NULL REFERENCES api_key,
    month   INTEGER NOT NULL,
    credits INTEGER NOT NULL CHECK (credits >= 0),   -- spent, less what was given back
    PRIMARY KEY (api_key, month)
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_move (
    id         INTEGER PRIMARY KEY,
    user       INTEGER NOT NULL REFERENCES user,
    kind       TEXT    NOT NULL CHECK (kind IN ('deposit', 'withdrawal', 'claim')),
    key_hash   BLOB    UNIQUE CHECK (length(key_hash) = 32),  -- of the Idempotency-Key, if any
    off_entry  INTEGER NOT NULL UNIQUE REFERENCES credit_entry,
    onto_entry INTEGER NOT NULL UNIQUE REFERENCES credit_entry
) STRICT;
CREATE TABLE linked_wallet (
    id        INTEGER PRIMARY KEY,
    user      INTEGER NOT NULL REFERENCES user,
    wallet    TEXT    NOT NULL,
    linked_at INTEGER NOT NULL,
    UNIQUE (user, wallet)
) STRICT;
CREATE TABLE watchlist (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user       INTEGER NOT NULL REFERENCES user,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE watched_mint (
    id        INTEGER PRIMARY KEY,
    watchlist INTEGER NOT NULL REFERENCES watchlist,
    mint      TEXT    NOT NULL,
    added_at  INTEGER NOT NULL,
    UNIQUE (watchlist, mint)
) STRICT;
CREATE TABLE "proof" (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose    TEXT    NOT NULL CHECK (purpose IN (
        'confirm_application', 'verify_email', 'reset_password', 'claim_agent',
        'change_email', 'undo_email')),
    subject    INTEGER NOT NULL,                    -- an application or a user, by purpose
    email      TEXT    NOT NULL,
    nonce      BLOB    NOT NULL,
    made_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    guesses    INTEGER NOT NULL DEFAULT 0,
    used_at    INTEGER
) STRICT;
INSERT INTO "proof" VALUES (1, 'confirm_application', 1, 'agent@example.org', X'AF92CA92C6A8EDDBD2B6934247DF0C6265BFB6635B6406A5190674F218E8790C', 1795374595561, 1795633795561, 1, 1795374595650);
INSERT INTO "proof" VALUES (2, 'confirm_application', 2, 'waiting@example.org', X'55CC4AA303754FE77BCD4129D040A2CF02D01793D2D2D14B1D5594C33D1A0B47', 1795374599441, 1795633799441, 1, 1795374599451);
INSERT INTO "proof" VALUES (3, 'confirm_application', 3, 'approved@example.org', X'B5692BC9D98800FE3915988FBD0610CD3493B9B550A3FDE8F0C5817EC9D237FD', 1795374605466, 1795633805466, 1, 1795374605487);
CREATE TABLE key_address (
    api_key      INTEGER NOT NULL REFERENCES api_key,
    address      TEXT    NOT NULL,
    last_used_at INTEGER NOT NULL,
    PRIMARY KEY (api_key, address)
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_day (
    account INTEGER NOT NULL REFERENCES credit_account,
    day     INTEGER NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_day_mark (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    entry INTEGER NOT NULL   -- the last that is added up
) STRICT;
INSERT INTO "credit_day_mark" VALUES (1, 0);
CREATE TABLE authenticator_app (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user         INTEGER NOT NULL UNIQUE REFERENCES user,
    nonce        BLOB    NOT NULL,
    made_at      INTEGER NOT NULL,
    confirmed_at INTEGER,                           -- NULL: no code of it was typed yet
    last_step    INTEGER NOT NULL                   -- whose code was accepted last
) STRICT;
CREATE TABLE recovery_code (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    user      INTEGER NOT NULL REFERENCES user,
    code_hash BLOB    NOT NULL CHECK (length(code_hash) = 32),
    made_at   INTEGER NOT NULL
) STRICT;
CREATE TABLE passkey (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user          INTEGER NOT NULL REFERENCES user,
    credential_id BLOB    NOT NULL UNIQUE,
    public_key    BLOB    NOT NULL,                 -- a COSE key
    sign_count    INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    made_at       INTEGER NOT NULL,
    last_used_at  INTEGER
) STRICT;
CREATE TABLE half_sign_in (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    user        INTEGER NOT NULL REFERENCES user,
    ticket_hash BLOB    NOT NULL UNIQUE CHECK (length(ticket_hash) = 32),
    begun_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE operation_hour (
    hour   INTEGER NOT NULL,
    series TEXT    NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (hour, series)
) STRICT, WITHOUT ROWID;
CREATE TABLE signal (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    user              INTEGER NOT NULL REFERENCES user,
    name              TEXT    NOT NULL,
    mint              TEXT    NOT NULL,
    field             TEXT    NOT NULL,
    kind              TEXT    NOT NULL,
    level             REAL    NOT NULL,
    margin            REAL    NOT NULL,
    percent           REAL    NOT NULL,
    window_s          INTEGER NOT NULL,
    webhook_url       TEXT,
    by_email          INTEGER NOT NULL,
    is_active         INTEGER NOT NULL,
    nonce             BLOB    NOT NULL,
    old_nonce         BLOB,
    old_nonce_until   INTEGER,
    revision          INTEGER NOT NULL DEFAULT 1,
    state             TEXT,
    created_at        INTEGER NOT NULL,
    fired_at          INTEGER,
    webhook_failed_at INTEGER
) STRICT;
CREATE TABLE signal_firing (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    signal       INTEGER NOT NULL REFERENCES signal,
    kind         TEXT    NOT NULL,
    seq          INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    value        REAL    NOT NULL,
    direction    TEXT    NOT NULL,
    reference    REAL    NOT NULL,
    fired_at     INTEGER NOT NULL,
    due_at       INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER,
    given_up_at  INTEGER,
    reason       TEXT
) STRICT;
CREATE TABLE signal_turn (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    seq        INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    holder     BLOB    NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;
CREATE TABLE signal_base (
    mint   TEXT    PRIMARY KEY,
    seq    INTEGER NOT NULL,
    packed BLOB    NOT NULL
) STRICT;
CREATE TABLE made_thing (
    key_hash BLOB    PRIMARY KEY,
    asked    BLOB    NOT NULL,
    thing    INTEGER NOT NULL,
    made_at  INTEGER NOT NULL
) STRICT;
CREATE TABLE stream_minute (
    id      INTEGER PRIMARY KEY,               -- drawn by the process that took it
    writer  INTEGER NOT NULL,                  -- that process
    at      INTEGER NOT NULL,
    account INTEGER NOT NULL REFERENCES credit_account,
    credits INTEGER NOT NULL CHECK (credits > 0),
    api_key INTEGER REFERENCES api_key,
    month   INTEGER CHECK ((month IS NULL) = (api_key IS NULL))
) STRICT;
CREATE INDEX payment_open ON payment (lease_until) WHERE final = 0;
CREATE INDEX payment_pending ON payment (payer, amount, fee_lamports) WHERE state = 'pending';
CREATE INDEX payment_reverted ON payment (resolved_at, payer, address, fee_lamports)
 WHERE reason = 'transaction_failed';
CREATE INDEX payment_resolved ON payment (resolved, payer, amount);
CREATE INDEX payment_key ON payment (key_hash);
CREATE INDEX payment_begun ON payment (begun_at);
CREATE INDEX payment_holder ON payment (holder) WHERE holder IS NOT NULL;
CREATE INDEX credit_entry_received ON credit_entry (account, id) WHERE kind <> 'spend';
CREATE INDEX payment_pending_from ON payment (address, fee_lamports) WHERE state = 'pending';
CREATE INDEX payment_sold_to ON payment (payer, resolved_at) WHERE state = 'issued';
CREATE INDEX payment_sold_from ON payment (address, resolved_at) WHERE state = 'issued';
CREATE INDEX doubt_due ON doubt (look_at);
CREATE UNIQUE INDEX user_person ON user (email) WHERE kind = 'person' AND removed_at IS NULL;
CREATE INDEX user_agent ON user (email) WHERE kind = 'agent' AND removed_at IS NULL;
CREATE INDEX application_queue ON application (state, applied_at);
CREATE INDEX application_user ON application (user) WHERE user IS NOT NULL;
CREATE INDEX api_key_user ON api_key (user);
CREATE UNIQUE INDEX api_key_signup ON api_key (application)
 WHERE application IS NOT NULL AND revoked_at IS NULL AND replaced_by IS NULL;
CREATE INDEX session_user ON session (user);
CREATE INDEX letter_recipient ON letter (recipient, kind, written_at);
CREATE INDEX letter_due ON letter (due_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX account_event_subject ON account_event (subject);
CREATE UNIQUE INDEX payment_quote ON payment (quote) WHERE quote IS NOT NULL;
CREATE INDEX payment_reverted_by ON payment (payer, resolved_at)
 WHERE reason = 'transaction_failed';
CREATE UNIQUE INDEX credit_account_owner ON credit_account (owner) WHERE owner IS NOT NULL;
CREATE INDEX credit_entry_api_key ON credit_entry (api_key, month) WHERE api_key IS NOT NULL;
CREATE INDEX payment_of_wallet ON payment (payer, begun_at, signature);
CREATE INDEX watchlist_user ON watchlist (user);
CREATE INDEX proof_subject ON proof (purpose, subject);
CREATE INDEX recovery_code_user ON recovery_code (user);
CREATE INDEX passkey_user ON passkey (user);
CREATE INDEX half_sign_in_user ON half_sign_in (user);
CREATE INDEX signal_user ON signal (user);
CREATE INDEX signal_firing_signal ON signal_firing (signal, id);
CREATE INDEX signal_firing_due ON signal_firing (due_at)
 WHERE due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL;
CREATE INDEX signal_firing_age ON signal_firing (fired_at);
CREATE INDEX made_thing_age ON made_thing (made_at);
CREATE INDEX signal_firing_waiting ON signal_firing (signal, id)
 WHERE due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL;
CREATE TRIGGER credit_entry_moves_balance AFTER INSERT ON credit_entry BEGIN
    UPDATE credit_account SET balance = balance + NEW.delta WHERE id = NEW.account;
    SELECT raise(ABORT, 'the entry does not continue its account''s balance')
     WHERE NEW.balance <> (SELECT balance FROM credit_account WHERE id = NEW.account);
END;
CREATE TRIGGER credit_entry_is_never_changed BEFORE UPDATE ON credit_entry BEGIN
    SELECT raise(ABORT, 'the journal is append-only');
END;
CREATE TRIGGER credit_entry_is_never_deleted BEFORE DELETE ON credit_entry BEGIN
    SELECT raise(ABORT, 'the journal is append-only');
END;
CREATE TRIGGER credit_account_is_never_deleted BEFORE DELETE ON credit_account BEGIN
    SELECT raise(ABORT, 'credit tokens never disappear');
END;
CREATE TRIGGER payment_is_never_deleted BEFORE DELETE ON payment BEGIN
    SELECT raise(ABORT, 'payments are never forgotten');
END;
CREATE TRIGGER payment_begins BEFORE INSERT ON payment
 WHEN NEW.state <> 'pending' OR NEW.fee_lamports <= 0 OR NEW.last_valid_height <= 0 BEGIN
    SELECT raise(ABORT, 'a payment begins pending, costs a fee and ends at a height');
END;
CREATE TRIGGER payment_never_goes_back BEFORE UPDATE OF state ON payment
 WHEN (NEW.state = 'pending' AND OLD.state <> 'pending')
   OR (NEW.state = 'failed' AND OLD.state IN ('issued', 'frozen')) BEGIN
    SELECT raise(ABORT, 'a payment never goes back');
END;
CREATE TRIGGER successor_is_never_changed BEFORE UPDATE OF successor ON credit_account
 WHEN OLD.successor IS NOT NULL BEGIN
    SELECT raise(ABORT, 'the first rotation of a token decides where its credits are');
END;
CREATE TRIGGER account_event_is_never_changed BEFORE UPDATE ON account_event BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER account_event_is_never_deleted BEFORE DELETE ON account_event BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER orphan_is_never_deleted BEFORE DELETE ON orphan BEGIN
    SELECT raise(ABORT, 'orphans are never forgotten');
END;
CREATE TRIGGER orphan_is_settled_for_good BEFORE UPDATE ON orphan
 WHEN OLD.acknowledged_at IS NOT NULL BEGIN
    SELECT raise(ABORT, 'what was acknowledged stays so');
END;
CREATE TRIGGER payment_is_as_promised BEFORE UPDATE OF
       message_hash, signature, payer, resource, amount, asset, credits, token_hash, key_hash,
       fee_lamports, last_valid_height, begun_at ON payment BEGIN
    SELECT raise(ABORT, 'what was promised is never changed');
END;
CREATE TRIGGER credit_entry_counts_for_its_key AFTER INSERT ON credit_entry
 WHEN NEW.api_key IS NOT NULL BEGIN
    INSERT INTO key_month (api_key, month, credits) VALUES (NEW.api_key, NEW.month, 0)
        ON CONFLICT DO NOTHING;
    UPDATE key_month SET credits = credits - NEW.delta
     WHERE api_key = NEW.api_key AND month = NEW.month;
END;
CREATE TRIGGER credit_move_is_never_changed BEFORE UPDATE ON credit_move BEGIN
    SELECT raise(ABORT, 'what was moved stays moved');
END;
CREATE TRIGGER credit_move_is_never_deleted BEFORE DELETE ON credit_move BEGIN
    SELECT raise(ABORT, 'what was moved stays moved');
END;
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('user',2);
INSERT INTO sqlite_sequence VALUES('account_event',12);
INSERT INTO sqlite_sequence VALUES('application',3);
INSERT INTO sqlite_sequence VALUES('letter',6);
INSERT INTO sqlite_sequence VALUES('api_key',1);
INSERT INTO sqlite_sequence VALUES('proof',3);
