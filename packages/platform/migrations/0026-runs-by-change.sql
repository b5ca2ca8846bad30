-- Runs of an integration by when they came to be as they are: A2A lists tasks in this order, and clients ask again and again for what has
-- changed since. CASE, because behind row-level security PostgreSQL looks nothing up by coalesce, of which it does not know that it gives
-- nothing away.
CREATE INDEX runs_integration_changed ON runs(integration_id, (CASE WHEN finished_at IS NOT NULL THEN finished_at
  WHEN waiting_since IS NOT NULL THEN waiting_since WHEN started_at IS NOT NULL THEN started_at ELSE created_at END) DESC, id DESC);
-- Of indexes that look equally good, the newest is used: it must be the one that finds a single run.
DROP INDEX runs_usage_request;
CREATE UNIQUE INDEX runs_usage_request ON runs(integration_id, usage_request_id) WHERE usage_request_id IS NOT NULL;
