-- What was said in a chat up to a message, summed up: a model gets it in place of those messages.

ALTER TABLE chats ADD COLUMN summary text, ADD COLUMN summarized_seq bigint NOT NULL DEFAULT 0;
