-- While browsers ask, each process looks every few seconds for the origins of all integrations, of which few list any.
CREATE INDEX integrations_with_origins ON integrations((jsonb_array_length(settings->'allowedOrigins'))) WHERE deleted_at IS NULL;
