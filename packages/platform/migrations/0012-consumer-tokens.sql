-- Since when tokens of consumers count: those that were made before are refused. An empty consumer stands for all of them.

CREATE TABLE consumer_token_cutoffs (
  owner_id text COLLATE "C" NOT NULL, integration_id text COLLATE "C" NOT NULL,
  consumer_id text COLLATE "C" NOT NULL, not_before timestamptz(3) NOT NULL, PRIMARY KEY (integration_id, consumer_id),
  FOREIGN KEY (owner_id, integration_id) REFERENCES integrations(owner_id, id));

DO $$ BEGIN
  ALTER TABLE consumer_token_cutoffs ENABLE ROW LEVEL SECURITY;
  ALTER TABLE consumer_token_cutoffs FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON consumer_token_cutoffs TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON consumer_token_cutoffs TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON consumer_token_cutoffs TO platform_tenant;
END $$;
