-- Processes reach each other through the records and Redis, never at an address of their own.

ALTER TABLE replicas DROP COLUMN internal_url;
