-- An announcement (outbox) becomes one delivery for each endpoint that wants it; each is tried for itself.

ALTER TABLE webhook_endpoints ADD COLUMN failing_since timestamptz(3);
CREATE INDEX webhook_endpoints_owner ON webhook_endpoints(owner_id, created_at DESC, id DESC);

CREATE TABLE webhook_deliveries (
  endpoint_id text COLLATE "C" NOT NULL REFERENCES webhook_endpoints(id) ON DELETE CASCADE, event_id text COLLATE "C" NOT NULL,
  owner_id text COLLATE "C" NOT NULL, topic text NOT NULL, payload jsonb NOT NULL, announced_at timestamptz(3) NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending','delivered','failed')),
  attempts integer NOT NULL DEFAULT 0, next_at timestamptz(3) NOT NULL DEFAULT now(), response_status integer,
  created_at timestamptz(3) NOT NULL DEFAULT now(), done_at timestamptz(3), PRIMARY KEY (endpoint_id, event_id));
CREATE INDEX webhook_deliveries_due ON webhook_deliveries(next_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_list ON webhook_deliveries(endpoint_id, created_at DESC, event_id DESC);
CREATE INDEX webhook_deliveries_done ON webhook_deliveries(done_at) WHERE done_at IS NOT NULL;

DO $$ BEGIN
  ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
  ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON webhook_deliveries TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON webhook_deliveries TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_deliveries TO platform_tenant;
END $$;
