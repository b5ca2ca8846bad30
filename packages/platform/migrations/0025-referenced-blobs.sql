-- Which images of an owner some message still shows: maintenance asks for a thousand at a time.
CREATE INDEX message_attachments_blob ON message_attachments(owner_id, blob_sha256) WHERE blob_sha256 IS NOT NULL;
