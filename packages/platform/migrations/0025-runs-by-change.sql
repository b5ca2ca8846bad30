-- Runs of an integration by when they came to be as they are: A2A lists tasks in this order. CASE, because behind row-level security
-- PostgreSQL looks nothing up by coalesce, of which it does not know that it gives nothing away.

CREATE INDEX runs_integration_changed ON runs(integration_id, (CASE WHEN finished_at IS NOT NULL THEN finished_at
  WHEN waiting_since IS NOT NULL THEN waiting_since WHEN started_at IS NOT NULL THEN started_at ELSE created_at END) DESC, id DESC);
