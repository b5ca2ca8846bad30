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
CREATE FUNCTION add_to_quarter_days() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE part usage_half_hours;
BEGIN
  FOR part IN EXECUTE CASE TG_OP WHEN 'INSERT' THEN
      'SELECT owner_id, date_bin(''6 hours'', begins_at, ''epoch''), integration_id, model, sum(runs), sum(failed_runs), sum(requests), sum(input_tokens), sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd),
        bool_or(estimated) FROM added GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4'
    ELSE
      'SELECT owner_id, date_bin(''6 hours'', begins_at, ''epoch''), integration_id, model, sum(a.runs - r.runs), sum(a.failed_runs - r.failed_runs), sum(a.requests - r.requests), sum(a.input_tokens - r.input_tokens), sum(a.cached_tokens - r.cached_tokens), sum(a.cache_write_tokens - r.cache_write_tokens), sum(a.output_tokens - r.output_tokens), sum(a.reasoning_tokens - r.reasoning_tokens), sum(a.cost_usd - r.cost_usd),
        bool_or(a.estimated) FROM added a JOIN removed r USING (owner_id, begins_at, integration_id, model) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4'
    END
  LOOP
    INSERT INTO usage_quarter_days AS q SELECT part.*
      ON CONFLICT (owner_id, begins_at, integration_id, model) DO UPDATE SET
        runs = q.runs + excluded.runs, failed_runs = q.failed_runs + excluded.failed_runs, requests = q.requests + excluded.requests,
        input_tokens = q.input_tokens + excluded.input_tokens, cached_tokens = q.cached_tokens + excluded.cached_tokens,
        cache_write_tokens = q.cache_write_tokens + excluded.cache_write_tokens, output_tokens = q.output_tokens + excluded.output_tokens,
        reasoning_tokens = q.reasoning_tokens + excluded.reasoning_tokens, cost_usd = q.cost_usd + excluded.cost_usd,
        estimated = q.estimated OR excluded.estimated;
  END LOOP;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_half_hours_added AFTER INSERT ON usage_half_hours
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION add_to_quarter_days();
CREATE TRIGGER usage_half_hours_changed AFTER UPDATE ON usage_half_hours
  REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION add_to_quarter_days();

-- Of what is kept already: nobody adds to it until this migration is committed.
SELECT set_config('app.access', 'system', true);
INSERT INTO usage_quarter_days SELECT owner_id, date_bin('6 hours', begins_at, 'epoch'), integration_id, model, sum(runs), sum(failed_runs), sum(requests),
    sum(input_tokens), sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd), bool_or(estimated)
  FROM usage_half_hours GROUP BY 1, 2, 3, 4;
SELECT set_config('app.access', '', true);
