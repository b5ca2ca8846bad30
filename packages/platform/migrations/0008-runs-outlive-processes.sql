-- A run outlives its process: how far it has come is committed with each of its steps, and another process goes on from there.

ALTER TABLE runs ADD COLUMN attempt integer NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  ADD COLUMN stalled smallint NOT NULL DEFAULT 0 CHECK (stalled >= 0),
  ADD COLUMN released boolean NOT NULL DEFAULT false,
  ADD COLUMN waiting_since timestamptz(3);

-- A waiting run holds its chat, but no process and none of its member's places.
ALTER TABLE runs DROP CONSTRAINT runs_state_check, DROP CONSTRAINT runs_check;
ALTER TABLE runs
  ADD CONSTRAINT runs_state_check CHECK (state IN ('reserved','running','waiting','completed','failed','cancelled')),
  ADD CONSTRAINT runs_check CHECK ((state IN ('reserved','running','waiting')) = (finished_at IS NULL)),
  ADD CONSTRAINT runs_waiting_check CHECK ((state = 'waiting') = (waiting_since IS NOT NULL));
DROP INDEX runs_one_active;
CREATE UNIQUE INDEX runs_one_active ON runs(chat_id) WHERE state IN ('reserved','running','waiting');
DROP INDEX runs_integration_active;
CREATE INDEX runs_integration_active ON runs(integration_id) WHERE state IN ('reserved','running','waiting');
CREATE INDEX runs_released ON runs(id) WHERE released;

-- Active states are entered by INSERT alone; a terminal state never changes; the identity of a run is fixed. Another process
-- takes a run up by raising its attempt, so that every write of the one before is void.
CREATE OR REPLACE FUNCTION runs_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state IN ('completed','failed','cancelled') AND NEW.state <> OLD.state THEN
    RAISE EXCEPTION 'run % is terminal', OLD.id USING ERRCODE = 'check_violation'; END IF;
  IF OLD.state IN ('running','waiting') AND NEW.state = 'reserved' THEN
    RAISE EXCEPTION 'run % cannot return to reserved', OLD.id USING ERRCODE = 'check_violation'; END IF;
  IF NEW.boot_id <> OLD.boot_id AND NEW.attempt <= OLD.attempt THEN
    RAISE EXCEPTION 'run % belongs to another process', OLD.id USING ERRCODE = 'check_violation'; END IF;
  IF NEW.chat_id <> OLD.chat_id OR NEW.owner_id <> OLD.owner_id OR NEW.attempt < OLD.attempt
     OR NEW.usage_request_id IS DISTINCT FROM OLD.usage_request_id THEN
    RAISE EXCEPTION 'run % identity is immutable', OLD.id USING ERRCODE = 'check_violation'; END IF;
  RETURN NEW;
END $$;

-- Written with every step, hence apart from the run itself, and half empty, so that a row is changed where it is.
CREATE TABLE run_states (
  run_id text COLLATE "C" PRIMARY KEY, owner_id text COLLATE "C" NOT NULL, version integer NOT NULL, state text NOT NULL,
  FOREIGN KEY (owner_id, run_id) REFERENCES runs(owner_id, id) ON DELETE CASCADE) WITH (fillfactor = 50);

-- A process that is connected directly holds an advisory lock of this number as long as it lives.
ALTER TABLE replicas ADD COLUMN lock_id integer;

DO $$ BEGIN
  ALTER TABLE run_states ENABLE ROW LEVEL SECURITY;
  ALTER TABLE run_states FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON run_states TO platform_tenant
    USING (owner_id = current_setting('app.owner_id', true)) WITH CHECK (owner_id = current_setting('app.owner_id', true));
  EXECUTE format('CREATE POLICY system ON run_states TO %I USING (current_setting(''app.access'', true) = ''system'')', current_user);
  GRANT SELECT, INSERT, UPDATE, DELETE ON run_states TO platform_tenant;
END $$;
