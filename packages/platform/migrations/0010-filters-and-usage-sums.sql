-- Lists stay quick for owners with a million runs, and summaries read sums, not runs.

CREATE INDEX runs_integration_time ON runs(integration_id, created_at DESC, id DESC);
-- Of indexes that look equally good, as all do while a table is small, the newest is used: it must not be the one for lists.
DROP INDEX runs_usage_request;
CREATE UNIQUE INDEX runs_usage_request ON runs(integration_id, usage_request_id) WHERE usage_request_id IS NOT NULL;
CREATE INDEX runs_consumer_time ON runs(owner_id, consumer_id, created_at DESC, id DESC) WHERE consumer_id IS NOT NULL;
CREATE INDEX runs_not_completed ON runs(owner_id, state, created_at DESC, id DESC) WHERE state IN ('failed','cancelled');
CREATE INDEX runs_integration_not_completed ON runs(integration_id, state, created_at DESC, id DESC) WHERE state IN ('failed','cancelled');
CREATE INDEX runs_owner_active ON runs(owner_id) WHERE finished_at IS NULL;
CREATE INDEX chats_consumer ON chats(owner_id, created_by_consumer, updated_at DESC, id DESC)
  WHERE created_by_consumer IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX members_inactive ON members(integration_id, created_at DESC, id DESC) WHERE status = 'inactive' AND deleted_at IS NULL;

-- Sums of ended runs, by the half hour in which they were admitted: days begin at half hours in nearly every time zone. `model` is
-- '' for all of a run.
CREATE TABLE usage_half_hours (
  owner_id text COLLATE "C" NOT NULL, begins_at timestamptz(3) NOT NULL, integration_id text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL,
  runs bigint NOT NULL, failed_runs bigint NOT NULL, requests bigint NOT NULL, input_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, cache_write_tokens bigint NOT NULL, output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  cost_usd numeric(24,10) NOT NULL, estimated boolean NOT NULL,
  PRIMARY KEY (owner_id, begins_at, integration_id, model));
CREATE INDEX usage_half_hours_age ON usage_half_hours(begins_at);

-- The same by UTC day and consumer; '' when a run named none.
CREATE TABLE usage_consumer_days (
  owner_id text COLLATE "C" NOT NULL, day date NOT NULL, integration_id text COLLATE "C" NOT NULL, consumer_id text COLLATE "C" NOT NULL,
  runs bigint NOT NULL, failed_runs bigint NOT NULL, requests bigint NOT NULL, input_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, cache_write_tokens bigint NOT NULL, output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  cost_usd numeric(24,10) NOT NULL, estimated boolean NOT NULL,
  PRIMARY KEY (owner_id, day, integration_id, consumer_id));
CREATE INDEX usage_consumer_days_age ON usage_consumer_days(day);

-- What runs that ended a moment ago add to both: many end at once, and none may wait for a sum that another one changes.
CREATE TABLE usage_deltas (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, begins_at timestamptz(3) NOT NULL, day date NOT NULL,
  integration_id text COLLATE "C" NOT NULL, consumer_id text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL,
  runs bigint NOT NULL, failed_runs bigint NOT NULL, requests bigint NOT NULL, input_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, cache_write_tokens bigint NOT NULL, output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  cost_usd numeric(24,10) NOT NULL, estimated boolean NOT NULL);
CREATE INDEX usage_deltas_owner ON usage_deltas(owner_id);

DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['usage_half_hours','usage_consumer_days','usage_deltas'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY tenant ON %I TO platform_tenant USING (owner_id = current_setting(''app.owner_id'', true)) '
      'WITH CHECK (owner_id = current_setting(''app.owner_id'', true))', t);
    EXECUTE format('CREATE POLICY system ON %I TO %I USING (current_setting(''app.access'', true) = ''system'')', t, current_user);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO platform_tenant', t);
  END LOOP;
END $$;

-- What ended runs add: a row for all of a run, and one for each model that it asked.
CREATE VIEW v_usage_of_runs AS
  SELECT r.id AS run_id, r.owner_id, date_bin('30 minutes', r.created_at, 'epoch') AS begins_at, (r.created_at AT TIME ZONE 'UTC')::date AS day,
    r.integration_id, coalesce(r.consumer_id, '') AS consumer_id, u.model, 1 AS runs, (r.state = 'failed')::integer AS failed_runs,
    u.requests, u.input_tokens, u.cached_tokens, u.cache_write_tokens, u.output_tokens, u.reasoning_tokens, u.cost_usd, u.estimated
  FROM runs r CROSS JOIN LATERAL (
    SELECT CASE WHEN grouping(e.model) = 1 THEN '' ELSE e.model END AS model, count(e.run_id) AS requests,
      coalesce(sum(e.input_tokens), 0)::bigint AS input_tokens, coalesce(sum(e.cached_tokens), 0)::bigint AS cached_tokens,
      coalesce(sum(e.cache_write_tokens), 0)::bigint AS cache_write_tokens, coalesce(sum(e.output_tokens), 0)::bigint AS output_tokens,
      coalesce(sum(e.reasoning_tokens), 0)::bigint AS reasoning_tokens, coalesce(sum(e.cost_usd), 0) AS cost_usd,
      coalesce(bool_or(e.estimated), false) AS estimated
    FROM usage_entries e WHERE e.run_id = r.id GROUP BY GROUPING SETS ((), (e.model))) u
  WHERE r.finished_at IS NOT NULL;

-- In the transaction that ends a run, whoever does. Planned while the tables are small, the query would go on reading whole tables.
CREATE FUNCTION add_usage_delta() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan TO off AS $$
BEGIN
  INSERT INTO usage_deltas (owner_id, begins_at, day, integration_id, consumer_id, model, runs, failed_runs, requests,
      input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, estimated)
    SELECT NEW.owner_id, date_bin('30 minutes', NEW.created_at, 'epoch'), (NEW.created_at AT TIME ZONE 'UTC')::date, NEW.integration_id,
      coalesce(NEW.consumer_id, ''), CASE WHEN grouping(e.model) = 1 THEN '' ELSE e.model END, 1, (NEW.state = 'failed')::integer, count(e.run_id),
      coalesce(sum(e.input_tokens), 0), coalesce(sum(e.cached_tokens), 0), coalesce(sum(e.cache_write_tokens), 0),
      coalesce(sum(e.output_tokens), 0), coalesce(sum(e.reasoning_tokens), 0), coalesce(sum(e.cost_usd), 0), coalesce(bool_or(e.estimated), false)
    FROM usage_entries e WHERE e.run_id = NEW.id GROUP BY GROUPING SETS ((), (e.model));
  RETURN NULL;
END $$;
CREATE TRIGGER runs_add_usage_delta AFTER UPDATE ON runs FOR EACH ROW
  WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL) EXECUTE FUNCTION add_usage_delta();

-- Of the runs that ended before this migration. The role that migrates owns the tables and sees all of them as system work does.
SELECT set_config('app.access', 'system', true);
INSERT INTO usage_half_hours SELECT owner_id, begins_at, integration_id, model, sum(runs), sum(failed_runs), sum(requests), sum(input_tokens),
    sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd), bool_or(estimated)
  FROM v_usage_of_runs GROUP BY 1, 2, 3, 4;
INSERT INTO usage_consumer_days SELECT owner_id, day, integration_id, consumer_id, sum(runs), sum(failed_runs), sum(requests), sum(input_tokens),
    sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd), bool_or(estimated)
  FROM v_usage_of_runs WHERE model = '' GROUP BY 1, 2, 3, 4;
SELECT set_config('app.access', '', true);
