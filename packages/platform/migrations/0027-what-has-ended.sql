-- Sweeps look for uploads that became no file, and for chats that were never used, deleted or not.
CREATE INDEX uploads_ended ON uploads(expires_at) WHERE state IN ('expired','deleted');
CREATE INDEX chats_unused ON chats(created_at) WHERE last_run_id IS NULL;
DROP INDEX chats_empty;
