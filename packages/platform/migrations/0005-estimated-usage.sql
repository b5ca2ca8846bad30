-- A model request that did not come to its end has a cost too, which can only be estimated.

ALTER TABLE usage_entries ADD COLUMN estimated boolean NOT NULL DEFAULT false;
