-- What the requests of an upload have brought are files of their own; these are the ones that count, in their order.

ALTER TABLE uploads ADD COLUMN parts text[] NOT NULL DEFAULT '{}';
