-- Calls that a person has to decide about: kept from the moment a run waits, decided or not, as long as the run.
CREATE TABLE run_approvals (
  run_id text COLLATE "C" NOT NULL, owner_id text COLLATE "C" NOT NULL,
  agent_run_id text COLLATE "C" NOT NULL, call_id text COLLATE "C" NOT NULL,
  place integer NOT NULL, tool text NOT NULL, arguments text NOT NULL, agent text NOT NULL, edit boolean NOT NULL,
  requested_at timestamptz(3) NOT NULL DEFAULT now(), expires_at timestamptz(3) NOT NULL,
  approve boolean, reason text, changed_arguments text, decided_by text, decided_at timestamptz(3),
  PRIMARY KEY (run_id, agent_run_id, call_id),
  CHECK ((approve IS NULL) = (decided_at IS NULL) AND (approve IS NULL) = (decided_by IS NULL)),
  CHECK (changed_arguments IS NULL OR (edit AND approve)),
  FOREIGN KEY (owner_id, run_id) REFERENCES runs(owner_id, id) ON DELETE CASCADE);
CREATE INDEX run_approvals_pending ON run_approvals(expires_at) WHERE approve IS NULL;

DO $$ BEGIN
  ALTER TABLE run_approvals ENABLE ROW LEVEL SECURITY;
  ALTER TABLE run_approvals FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON run_approvals TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON run_approvals TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON run_approvals TO platform_tenant;
END $$;
