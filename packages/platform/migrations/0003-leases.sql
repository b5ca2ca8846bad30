-- Work that only one process may do at a time. The lease of a process that dies runs out.

CREATE TABLE leases (
  owner_id text COLLATE "C" NOT NULL REFERENCES owners(id), name text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL, expires_at timestamptz(3) NOT NULL, PRIMARY KEY (owner_id, name));

DO $$ BEGIN
  ALTER TABLE leases ENABLE ROW LEVEL SECURITY;
  ALTER TABLE leases FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON leases TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON leases TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON leases TO platform_tenant;
END $$;
