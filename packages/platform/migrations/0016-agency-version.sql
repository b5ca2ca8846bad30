-- What the agency was when a process last began to work on the run; null until one has.
ALTER TABLE runs ADD COLUMN agency_version text;
