-- What is known of a response of `POST /openai/v1/responses` besides its run, as long as the run. Its events after `after_seq` are its own.
CREATE TABLE responses (
  run_id text COLLATE "C" NOT NULL, after_seq bigint NOT NULL, owner_id text COLLATE "C" NOT NULL, record jsonb NOT NULL,
  PRIMARY KEY (run_id, after_seq),
  FOREIGN KEY (owner_id, run_id) REFERENCES runs(owner_id, id) ON DELETE CASCADE);

DO $$ BEGIN
  ALTER TABLE responses ENABLE ROW LEVEL SECURITY;
  ALTER TABLE responses FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON responses TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON responses TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON responses TO platform_tenant;
END $$;
