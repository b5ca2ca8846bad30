/** Processes that may die over a run without a step of it in between. */
export const MAX_STALLED = 3

/** Events of one process; those of the next one have higher numbers than any reader has seen. */
export const EVENTS_OF_ATTEMPT = 1_000_000
