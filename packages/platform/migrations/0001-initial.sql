-- The records of the platform. Runs unchanged on PostgreSQL 15 and later and on PGlite.
-- Timestamps keep milliseconds: what a client reads back (a cursor, a JavaScript Date) equals what is stored.
-- Ids come from the application; COLLATE "C" gives them the same order on every engine.

CREATE TABLE owners (
  id text COLLATE "C" PRIMARY KEY, name text NOT NULL,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active','suspended')),
  dek_wrapped bytea NOT NULL, created_at timestamptz(3) NOT NULL DEFAULT now());

-- EdDSA keys sign API keys; the one HS256 key fingerprints requests and signs cursors.
CREATE TABLE platform_keys (
  kid text COLLATE "C" PRIMARY KEY, alg text NOT NULL CHECK (alg IN ('EdDSA','HS256')), public_key bytea, private_enc bytea,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active','verify_only','retired')),
  created_at timestamptz(3) NOT NULL DEFAULT now(), CHECK ((alg = 'EdDSA') = (public_key IS NOT NULL)));

CREATE TABLE api_keys (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL REFERENCES owners(id),
  name text NOT NULL, token_sha256 bytea NOT NULL UNIQUE, kid text NOT NULL, hint text NOT NULL,
  scopes text[] NOT NULL, integration_ids text[], created_at timestamptz(3) NOT NULL DEFAULT now(), expires_at timestamptz(3),
  last_used_at timestamptz(3), revoked_at timestamptz(3));
CREATE INDEX api_keys_owner ON api_keys(owner_id, created_at DESC, id DESC);

CREATE TABLE integrations (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL REFERENCES owners(id),
  name text NOT NULL, agency_id text NOT NULL, default_agent text NOT NULL,
  text_only boolean NOT NULL DEFAULT false, allowances_enabled boolean NOT NULL DEFAULT false,
  default_allowance jsonb NOT NULL, settings jsonb NOT NULL,
  version integer NOT NULL DEFAULT 1, deleted_at timestamptz(3),
  created_at timestamptz(3) NOT NULL DEFAULT now(), updated_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (owner_id, id));
CREATE INDEX integrations_list ON integrations(owner_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE members (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, integration_id text COLLATE "C" NOT NULL,
  consumer_id text COLLATE "C" NOT NULL CHECK (length(consumer_id) BETWEEN 1 AND 256),
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active','inactive')),
  limit_messages bigint CHECK (limit_messages >= 0), limit_tokens bigint CHECK (limit_tokens >= 0),
  limit_cost_micro bigint CHECK (limit_cost_micro >= 0),
  period text NOT NULL DEFAULT 'month' CHECK (period IN ('day','week','month','lifetime')),
  time_zone text NOT NULL DEFAULT 'UTC', anchor_day smallint NOT NULL DEFAULT 1 CHECK (anchor_day BETWEEN 1 AND 28),
  max_concurrent integer NOT NULL DEFAULT 10 CHECK (max_concurrent BETWEEN 1 AND 1000),
  active_runs integer NOT NULL DEFAULT 0 CHECK (active_runs >= 0),
  display_name text, metadata jsonb NOT NULL DEFAULT '{}', version integer NOT NULL DEFAULT 1, deleted_at timestamptz(3),
  policy_source text NOT NULL DEFAULT 'integration_default' CHECK (policy_source IN ('member','integration_default')),
  policy_version integer NOT NULL DEFAULT 1,
  created_at timestamptz(3) NOT NULL DEFAULT now(), updated_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (owner_id, id),
  FOREIGN KEY (owner_id, integration_id) REFERENCES integrations(owner_id, id));
CREATE UNIQUE INDEX members_consumer ON members(integration_id, consumer_id) WHERE deleted_at IS NULL;
CREATE INDEX members_list ON members(integration_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE allowance_periods (
  member_id text COLLATE "C" NOT NULL, period_start timestamptz(3) NOT NULL, period_end timestamptz(3) NOT NULL,
  owner_id text COLLATE "C" NOT NULL,
  used_messages bigint NOT NULL DEFAULT 0, used_tokens bigint NOT NULL DEFAULT 0, used_cost_micro bigint NOT NULL DEFAULT 0,
  extra_messages bigint NOT NULL DEFAULT 0, extra_tokens bigint NOT NULL DEFAULT 0, extra_cost_micro bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (member_id, period_start), CHECK (period_end > period_start),
  FOREIGN KEY (owner_id, member_id) REFERENCES members(owner_id, id));

CREATE TABLE chats (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, integration_id text COLLATE "C" NOT NULL,
  alias text COLLATE "C", title text, created_by_consumer text COLLATE "C", next_seq bigint NOT NULL DEFAULT 1,
  last_run_id text COLLATE "C", deleted_at timestamptz(3),
  created_at timestamptz(3) NOT NULL DEFAULT now(), updated_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (owner_id, id), FOREIGN KEY (owner_id, integration_id) REFERENCES integrations(owner_id, id));
CREATE UNIQUE INDEX chats_alias ON chats(integration_id, alias) WHERE alias IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX chats_list ON chats(integration_id, updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX chats_owner ON chats(owner_id, updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX chats_deleted ON chats(deleted_at) WHERE deleted_at IS NOT NULL AND next_seq > 1;
CREATE INDEX chats_empty ON chats(created_at) WHERE last_run_id IS NULL AND deleted_at IS NULL;

-- One life of one server process. No foreign key points here: a hot row would collect a lock from every reservation.
CREATE TABLE replicas (
  boot_id text COLLATE "C" PRIMARY KEY, hb_seq bigint NOT NULL DEFAULT 0, state text NOT NULL DEFAULT 'live'
    CHECK (state IN ('live','draining','gone','dead')),
  internal_url text, version text, started_at timestamptz(3) NOT NULL DEFAULT now(),
  heartbeat_at timestamptz(3) NOT NULL DEFAULT now());

CREATE TABLE runs (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, integration_id text COLLATE "C" NOT NULL,
  chat_id text COLLATE "C" NOT NULL, member_id text COLLATE "C", consumer_id text COLLATE "C",
  usage_request_id text COLLATE "C", fingerprint bytea NOT NULL, agent text NOT NULL, text_only boolean NOT NULL,
  state text NOT NULL CHECK (state IN ('reserved','running','completed','failed','cancelled')),
  boot_id text COLLATE "C" NOT NULL, period_start timestamptz(3),
  cancel_mode text CHECK (cancel_mode IN ('immediate','after_turn')), cancel_requested_at timestamptz(3),
  error_code text, error_message text, error_class text CHECK (error_class IN ('system','upstream','caller','limit')),
  input jsonb NOT NULL, context_enc bytea, usage jsonb, last_event_seq bigint NOT NULL DEFAULT 0,
  created_at timestamptz(3) NOT NULL DEFAULT now(), started_at timestamptz(3), finished_at timestamptz(3),
  deadline_at timestamptz(3) NOT NULL,
  CHECK ((state IN ('reserved','running')) = (finished_at IS NULL)),
  CHECK ((member_id IS NULL) = (period_start IS NULL)),
  UNIQUE (owner_id, id),
  FOREIGN KEY (owner_id, chat_id) REFERENCES chats(owner_id, id),
  FOREIGN KEY (owner_id, integration_id) REFERENCES integrations(owner_id, id),
  FOREIGN KEY (owner_id, member_id) REFERENCES members(owner_id, id));
-- The linearization point of admission: at most one active run per chat, whatever the code above does.
CREATE UNIQUE INDEX runs_one_active ON runs(chat_id) WHERE state IN ('reserved','running');
CREATE UNIQUE INDEX runs_usage_request ON runs(integration_id, usage_request_id) WHERE usage_request_id IS NOT NULL;
CREATE INDEX runs_boot_active ON runs(boot_id) WHERE state IN ('reserved','running');
CREATE INDEX runs_cancel_pending ON runs(boot_id) WHERE state IN ('reserved','running') AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_member_active ON runs(member_id) WHERE state IN ('reserved','running');
CREATE INDEX runs_integration_active ON runs(integration_id) WHERE state IN ('reserved','running');
CREATE INDEX runs_chat ON runs(chat_id, created_at DESC, id DESC);
CREATE INDEX runs_owner_time ON runs(owner_id, created_at DESC, id DESC);
CREATE INDEX runs_finished ON runs(finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE messages (
  chat_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, owner_id text COLLATE "C" NOT NULL, run_id text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL UNIQUE, role text NOT NULL CHECK (role IN ('user','assistant','system','tool')), item jsonb NOT NULL,
  status text NOT NULL DEFAULT 'ok' CHECK (status IN ('ok','failed','cancelled','partial')),
  created_at timestamptz(3) NOT NULL DEFAULT now(), PRIMARY KEY (chat_id, seq),
  FOREIGN KEY (owner_id, chat_id) REFERENCES chats(owner_id, id));
CREATE INDEX messages_run ON messages(run_id);

CREATE TABLE message_attachments (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, chat_id text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL, message_seq bigint NOT NULL, idx smallint NOT NULL CHECK (idx BETWEEN 0 AND 4),
  kind text NOT NULL CHECK (kind IN ('input_file','input_image')),
  url_enc bytea, url_key text COLLATE "C", url_params_hash bytea, expires_at timestamptz(3),
  blob_sha256 bytea, mime text, filename text,
  detail text CHECK (detail IN ('auto','low','high')), byte_size bigint,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending','ok','excluded','needs_refresh')),
  refreshed_at timestamptz(3), created_at timestamptz(3) NOT NULL DEFAULT now(),
  CHECK ((url_enc IS NULL) <> (blob_sha256 IS NULL)), CHECK ((url_enc IS NULL) = (url_key IS NULL)),
  FOREIGN KEY (owner_id, chat_id) REFERENCES chats(owner_id, id));
CREATE INDEX message_attachments_chat ON message_attachments(chat_id, message_seq, idx);
CREATE INDEX message_attachments_run ON message_attachments(run_id);

-- occurred_at is the instant that the amount belongs to: for a debit or refund the reservation of its run.
CREATE TABLE allowance_ledger (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, member_id text COLLATE "C" NOT NULL,
  period_start timestamptz(3) NOT NULL,
  kind text NOT NULL CHECK (kind IN ('debit','refund','grant','correction','backfill','carry')),
  dedupe_key text COLLATE "C" NOT NULL, run_id text COLLATE "C", occurred_at timestamptz(3) NOT NULL,
  messages bigint NOT NULL DEFAULT 0, tokens bigint NOT NULL DEFAULT 0, cost_micro bigint NOT NULL DEFAULT 0,
  note text, actor text, fingerprint bytea, created_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (member_id, dedupe_key),
  FOREIGN KEY (owner_id, member_id) REFERENCES members(owner_id, id));
CREATE INDEX ledger_period ON allowance_ledger(member_id, period_start, id);
CREATE INDEX ledger_occurred ON allowance_ledger(member_id, occurred_at);
CREATE INDEX ledger_run ON allowance_ledger(run_id) WHERE run_id IS NOT NULL;

CREATE TABLE usage_entries (
  run_id text COLLATE "C" NOT NULL, call_seq integer NOT NULL, owner_id text COLLATE "C" NOT NULL,
  agent text NOT NULL, model text NOT NULL, priced boolean NOT NULL,
  input_tokens bigint NOT NULL, cached_tokens bigint NOT NULL DEFAULT 0, cache_write_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL DEFAULT 0, cost_usd numeric(20,10) NOT NULL DEFAULT 0,
  created_at timestamptz(3) NOT NULL DEFAULT now(), PRIMARY KEY (run_id, call_seq),
  FOREIGN KEY (owner_id, run_id) REFERENCES runs(owner_id, id));

CREATE TABLE run_event_chunks (
  run_id text COLLATE "C" NOT NULL, first_seq bigint NOT NULL, last_seq bigint NOT NULL,
  owner_id text COLLATE "C" NOT NULL, body bytea NOT NULL, created_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (run_id, first_seq), CHECK (last_seq >= first_seq),
  FOREIGN KEY (owner_id, run_id) REFERENCES runs(owner_id, id));

CREATE TABLE uploads (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, integration_id text COLLATE "C" NOT NULL,
  name text NOT NULL, path text COLLATE "C" NOT NULL, declared_bytes bigint NOT NULL CHECK (declared_bytes BETWEEN 0 AND 536870912),
  received_bytes bigint NOT NULL DEFAULT 0 CHECK (received_bytes BETWEEN 0 AND declared_bytes),
  sha256 bytea, content_type text, token_hash bytea NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending','ready','expired','deleted')),
  expires_at timestamptz(3) NOT NULL, created_at timestamptz(3) NOT NULL DEFAULT now(), completed_at timestamptz(3),
  UNIQUE (integration_id, path), FOREIGN KEY (owner_id, integration_id) REFERENCES integrations(owner_id, id));
CREATE INDEX uploads_pending ON uploads(expires_at) WHERE state = 'pending';

CREATE TABLE mount_usage (
  integration_id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL,
  used_bytes bigint NOT NULL DEFAULT 0 CHECK (used_bytes >= 0), reserved_bytes bigint NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0),
  file_count bigint NOT NULL DEFAULT 0 CHECK (file_count >= 0),
  FOREIGN KEY (owner_id, integration_id) REFERENCES integrations(owner_id, id));

-- The stored response may hold a secret (a new API key), hence sealed.
CREATE TABLE idempotency_keys (
  owner_id text COLLATE "C" NOT NULL, route text NOT NULL, key text COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  claim text COLLATE "C" NOT NULL, fingerprint bytea NOT NULL, status smallint, response_enc bytea,
  created_at timestamptz(3) NOT NULL DEFAULT now(), expires_at timestamptz(3) NOT NULL, PRIMARY KEY (owner_id, route, key));
CREATE INDEX idempotency_expired ON idempotency_keys(expires_at);

CREATE TABLE webhook_endpoints (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL REFERENCES owners(id), url text NOT NULL, events text[] NOT NULL,
  secret_enc bytea NOT NULL, status text NOT NULL DEFAULT 'enabled' CHECK (status IN ('enabled','disabled')),
  created_at timestamptz(3) NOT NULL DEFAULT now());

CREATE TABLE outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, topic text NOT NULL,
  event_id text COLLATE "C" NOT NULL UNIQUE, run_id text COLLATE "C", payload jsonb NOT NULL, attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz(3) NOT NULL DEFAULT now(), done_at timestamptz(3), created_at timestamptz(3) NOT NULL DEFAULT now());
CREATE INDEX outbox_due ON outbox(next_at) WHERE done_at IS NULL;
CREATE INDEX outbox_done ON outbox(done_at) WHERE done_at IS NOT NULL;
CREATE INDEX outbox_run ON outbox(run_id) WHERE run_id IS NOT NULL;

CREATE TABLE secrets (
  id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL REFERENCES owners(id), scope text NOT NULL, name text NOT NULL,
  ciphertext bytea NOT NULL, created_at timestamptz(3) NOT NULL DEFAULT now(), updated_at timestamptz(3) NOT NULL DEFAULT now(),
  UNIQUE (owner_id, scope, name));

CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, actor text NOT NULL, action text NOT NULL,
  target text NOT NULL, details jsonb NOT NULL DEFAULT '{}', request_id text, created_at timestamptz(3) NOT NULL DEFAULT now());
CREATE INDEX audit_owner ON audit_log(owner_id, id DESC);

-- One tz database decides where a period begins, whichever process asks.
CREATE FUNCTION allowance_bounds(p text, tz text, anchor int, at timestamptz, OUT ps timestamptz, OUT pe timestamptz)
LANGUAGE sql STABLE AS $$
  WITH l AS (SELECT at AT TIME ZONE tz AS t), s AS (
    SELECT CASE p WHEN 'day' THEN date_trunc('day', t) WHEN 'week' THEN date_trunc('week', t)
      WHEN 'month' THEN date_trunc('month', t - make_interval(days => anchor - 1)) + make_interval(days => anchor - 1) END AS x FROM l)
  SELECT CASE WHEN p='lifetime' THEN timestamptz '1970-01-01 00:00:00Z' ELSE x AT TIME ZONE tz END,
         CASE WHEN p='lifetime' THEN timestamptz '9999-01-01 00:00:00Z' ELSE
           (x + CASE p WHEN 'day' THEN interval '1 day' WHEN 'week' THEN interval '7 days' ELSE interval '1 month' END) AT TIME ZONE tz END FROM s
$$;

-- The only read across tenants on the path of a request: 404 and 403 differ there (hosted-platform-api, "Errors").
-- An ordinary role may not attach app.access to the function (only a superuser may name it in advance): hence set_config.
CREATE FUNCTION resolve_integration(p_id text, OUT owner_id text, OUT is_deleted boolean) LANGUAGE plpgsql SECURITY DEFINER
  SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM set_config('app.access', 'system', true);
  SELECT i.owner_id, i.deleted_at IS NOT NULL INTO owner_id, is_deleted FROM integrations i WHERE i.id = p_id;
  PERFORM set_config('app.access', '', true);
END $$;

-- Active states are entered by INSERT alone; a terminal state never changes; the identity of a run is fixed.
CREATE FUNCTION runs_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state IN ('completed','failed','cancelled') AND NEW.state <> OLD.state THEN
    RAISE EXCEPTION 'run % is terminal', OLD.id USING ERRCODE = 'check_violation'; END IF;
  IF OLD.state = 'running' AND NEW.state = 'reserved' THEN
    RAISE EXCEPTION 'run % cannot return to reserved', OLD.id USING ERRCODE = 'check_violation'; END IF;
  IF NEW.chat_id <> OLD.chat_id OR NEW.owner_id <> OLD.owner_id OR NEW.boot_id <> OLD.boot_id
     OR NEW.usage_request_id IS DISTINCT FROM OLD.usage_request_id THEN
    RAISE EXCEPTION 'run % identity is immutable', OLD.id USING ERRCODE = 'check_violation'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER runs_guard BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION runs_guard();

CREATE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'append only' USING ERRCODE = 'check_violation'; END $$;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON allowance_ledger FOR EACH ROW EXECUTE FUNCTION ledger_append_only();

-- Both must always be empty.
CREATE VIEW v_counter_drift AS
  SELECT p.member_id, p.period_start, p.used_messages, p.used_tokens, p.used_cost_micro,
    coalesce(sum(l.messages),0)::bigint lm, coalesce(sum(l.tokens),0)::bigint lt, coalesce(sum(l.cost_micro),0)::bigint lc
  FROM allowance_periods p
  LEFT JOIN allowance_ledger l ON l.member_id=p.member_id AND l.period_start=p.period_start AND l.kind <> 'grant'
  GROUP BY 1,2,3,4,5 HAVING p.used_messages <> coalesce(sum(l.messages),0)
    OR p.used_tokens <> coalesce(sum(l.tokens),0) OR p.used_cost_micro <> coalesce(sum(l.cost_micro),0);
CREATE VIEW v_active_drift AS
  SELECT m.id, m.active_runs, count(r.id)::int real_active FROM members m
  LEFT JOIN runs r ON r.member_id=m.id AND r.state IN ('reserved','running') GROUP BY 1,2 HAVING m.active_runs <> count(r.id);

-- Second line of tenancy (the first is owner_id in every key). Requests run as platform_tenant with app.owner_id set and
-- see that owner alone; with nothing set they see nothing. System work (reaper, sweeps) says so in app.access, which only
-- the role that owns the tables may use.
DO $$ DECLARE t text; BEGIN
  BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname='platform_tenant') THEN CREATE ROLE platform_tenant NOLOGIN NOBYPASSRLS; END IF;
  EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- another database of this cluster was faster
  END;
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN EXECUTE format('GRANT platform_tenant TO %I', current_user); END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO platform_tenant', current_schema());
  FOREACH t IN ARRAY ARRAY['api_keys','integrations','members','allowance_periods','chats','runs','messages','allowance_ledger','usage_entries',
    'message_attachments','uploads','mount_usage','run_event_chunks','idempotency_keys','webhook_endpoints','outbox','secrets','audit_log'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY tenant ON %I TO platform_tenant USING (owner_id = current_setting(''app.owner_id'', true)) '
      'WITH CHECK (owner_id = current_setting(''app.owner_id'', true))', t);
    EXECUTE format('CREATE POLICY system ON %I TO %I USING (current_setting(''app.access'', true) = ''system'')', t, current_user);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO platform_tenant', t);
  END LOOP;
  GRANT SELECT ON replicas TO platform_tenant;
  REVOKE UPDATE, DELETE ON allowance_ledger, audit_log FROM platform_tenant;
END $$;
