-- Who is notified of a run that is a task of A2A, while it waits and when it has ended: `notified_at` is the change that the receiver knows of.
-- What shows the receiver who sends is sealed.
CREATE TABLE push_configs (
  run_id text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, owner_id text COLLATE "C" NOT NULL,
  url text NOT NULL, scheme text, secret_enc bytea NOT NULL, notified_at timestamptz(3),
  attempts integer NOT NULL DEFAULT 0, next_at timestamptz(3) NOT NULL DEFAULT now(), failing_since timestamptz(3),
  closed_at timestamptz(3), created_at timestamptz(3) NOT NULL DEFAULT now(), PRIMARY KEY (run_id, id),
  FOREIGN KEY (owner_id, run_id) REFERENCES runs(owner_id, id) ON DELETE CASCADE);
CREATE INDEX push_configs_due ON push_configs(next_at) WHERE closed_at IS NULL;
CREATE INDEX push_configs_closed ON push_configs(closed_at) WHERE closed_at IS NOT NULL;

DO $$ BEGIN
  ALTER TABLE push_configs ENABLE ROW LEVEL SECURITY;
  ALTER TABLE push_configs FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON push_configs TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON push_configs TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON push_configs TO platform_tenant;
END $$;
