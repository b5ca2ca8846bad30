-- An Idempotency-Key belongs to the API key that sends it. What was kept before does not say whose it was, and holds
-- tokens: it is forgotten.

TRUNCATE idempotency_keys;
ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey;
ALTER TABLE idempotency_keys ADD COLUMN api_key_id text COLLATE "C" NOT NULL;
ALTER TABLE idempotency_keys ADD PRIMARY KEY (owner_id, api_key_id, route, key);
