-- Usage of consumers by week: a summary of a month reads half of the rows, and days only where it begins or ends within a week. Weeks are the
-- multiples of seven days since 1970-01-01, in UTC.

CREATE TABLE usage_consumer_weeks (
  owner_id text COLLATE "C" NOT NULL, week date NOT NULL, integration_id text COLLATE "C" NOT NULL, consumer_id text COLLATE "C" NOT NULL,
  runs bigint NOT NULL, failed_runs bigint NOT NULL, requests bigint NOT NULL, input_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, cache_write_tokens bigint NOT NULL, output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  cost_usd numeric(24,10) NOT NULL, estimated boolean NOT NULL,
  PRIMARY KEY (owner_id, week, integration_id, consumer_id));
CREATE INDEX usage_consumer_weeks_age ON usage_consumer_weeks(week);

DO $$ BEGIN
  ALTER TABLE usage_consumer_weeks ENABLE ROW LEVEL SECURITY;
  ALTER TABLE usage_consumer_weeks FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON usage_consumer_weeks TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON usage_consumer_weeks TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON usage_consumer_weeks TO platform_tenant;
END $$;

-- Whoever adds to days, processes of an earlier version too.
CREATE FUNCTION add_to_consumer_weeks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE part usage_consumer_days;
BEGIN
  FOR part IN EXECUTE CASE TG_OP WHEN 'INSERT' THEN
      'SELECT owner_id, day - (day - date ''epoch'') % 7, integration_id, consumer_id, sum(runs), sum(failed_runs), sum(requests), sum(input_tokens), sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd),
        bool_or(estimated) FROM added GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4'
    ELSE
      'SELECT owner_id, day - (day - date ''epoch'') % 7, integration_id, consumer_id, sum(a.runs - r.runs), sum(a.failed_runs - r.failed_runs), sum(a.requests - r.requests), sum(a.input_tokens - r.input_tokens), sum(a.cached_tokens - r.cached_tokens), sum(a.cache_write_tokens - r.cache_write_tokens), sum(a.output_tokens - r.output_tokens), sum(a.reasoning_tokens - r.reasoning_tokens), sum(a.cost_usd - r.cost_usd),
        bool_or(a.estimated) FROM added a JOIN removed r USING (owner_id, day, integration_id, consumer_id) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4'
    END
  LOOP
    INSERT INTO usage_consumer_weeks AS w SELECT part.*
      ON CONFLICT (owner_id, week, integration_id, consumer_id) DO UPDATE SET
        runs = w.runs + excluded.runs, failed_runs = w.failed_runs + excluded.failed_runs, requests = w.requests + excluded.requests,
        input_tokens = w.input_tokens + excluded.input_tokens, cached_tokens = w.cached_tokens + excluded.cached_tokens,
        cache_write_tokens = w.cache_write_tokens + excluded.cache_write_tokens, output_tokens = w.output_tokens + excluded.output_tokens,
        reasoning_tokens = w.reasoning_tokens + excluded.reasoning_tokens, cost_usd = w.cost_usd + excluded.cost_usd,
        estimated = w.estimated OR excluded.estimated;
  END LOOP;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_consumer_days_added AFTER INSERT ON usage_consumer_days
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION add_to_consumer_weeks();
CREATE TRIGGER usage_consumer_days_changed AFTER UPDATE ON usage_consumer_days
  REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION add_to_consumer_weeks();

-- Of what is kept already: nobody adds to it until this migration is committed.
SELECT set_config('app.access', 'system', true);
INSERT INTO usage_consumer_weeks SELECT owner_id, day - (day - date 'epoch') % 7, integration_id, consumer_id, sum(runs), sum(failed_runs), sum(requests),
    sum(input_tokens), sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost_usd), bool_or(estimated)
  FROM usage_consumer_days GROUP BY 1, 2, 3, 4;
SELECT set_config('app.access', '', true);
