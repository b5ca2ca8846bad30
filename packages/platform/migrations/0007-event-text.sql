-- The log of a run is kept as its events, no longer as the frames of one wire format. What is there is kept for a day only:
-- who resumes one of those runs gets its messages and its end from the record.

TRUNCATE run_event_chunks;
