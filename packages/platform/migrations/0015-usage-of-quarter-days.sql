-- Usage by quarter of a UTC day: a summary of half a year reads a twelfth of the half hours' rows, and half hours only where its days begin.

CREATE TABLE usage_quarter_days (
  owner_id text COLLATE "C" NOT NULL, begins_at timestamptz(3) NOT NULL, integration_id text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL,
  runs bigint NOT NULL, failed_runs bigint NOT NULL, requests bigint NOT NULL, input_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, cache_write_tokens bigint NOT NULL, output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  cost_usd numeric(24,10) NOT NULL, estimated boolean NOT NULL,
  PRIMARY KEY (owner_id, begins_at, integration_id, model));
CREATE INDEX usage_quarter_days_age ON usage_quarter_days(begins_at);

DO $$ BEGIN
  ALTER TABLE usage_quarter_days ENABLE ROW LEVEL SECURITY;
  ALTER TABLE usage_quarter_days FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON usage_quarter_days TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON usage_quarter_days TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON usage_quarter_days TO platform_tenant;
END $$;

-- Whoever adds to half hours, processes of an earlier version too.
CREATE FUNCTION add_to_quarter_day() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE before usage_half_hours := OLD;
BEGIN
  INSERT INTO usage_quarter_days AS q VALUES (NEW.owner_id, date_bin('6 hours', NEW.begins_at, 'epoch'), NEW.integration_id, NEW.model,
      NEW.runs - coalesce(before.runs, 0), NEW.failed_runs - coalesce(before.failed_runs, 0), NEW.requests - coalesce(before.requests, 0),
      NEW.input_tokens - coalesce(before.input_tokens, 0), NEW.cached_tokens - coalesce(before.cached_tokens, 0),
      NEW.cache_write_tokens - coalesce(before.cache_write_tokens, 0), NEW.output_tokens - coalesce(before.output_tokens, 0),
      NEW.reasoning_tokens - coalesce(before.reasoning_tokens, 0), NEW.cost_usd - coalesce(before.cost_usd, 0), NEW.estimated)
    ON CONFLICT (owner_id, begins_at, integration_id, model) DO UPDATE SET runs = q.runs + excluded.runs,
      failed_runs = q.failed_runs + excluded.failed_runs, requests = q.requests + excluded.requests,
      input_tokens = q.input_tokens + excluded.input_tokens, cached_tokens = q.cached_tokens + excluded.cached_tokens,
      cache_write_tokens = q.cache_write_tokens + excluded.cache_write_tokens, output_tokens = q.output_tokens + excluded.output_tokens,
      reasoning_tokens = q.reasoning_tokens + excluded.reasoning_tokens, cost_usd = q.cost_usd + excluded.cost_usd,
      estimated = q.estimated OR excluded.estimated;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_half_hours_add_up AFTER INSERT OR UPDATE ON usage_half_hours FOR EACH ROW EXECUTE FUNCTION add_to_quarter_day();

-- Of what is kept already: nobody adds to it until this migration is committed.
SELECT set_config('app.access', 'system', true);
INSERT INTO usage_quarter_days SELECT owner_id, date_bin('6 hours', begins_at, 'epoch'), integration_id, model, sum(runs), sum(failed_runs), sum(requests),
    sum(input_tokens), sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd), bool_or(estimated)
  FROM usage_half_hours GROUP BY 1, 2, 3, 4;
SELECT set_config('app.access', '', true);
