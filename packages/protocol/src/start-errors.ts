/** A mistake of the operator or developer. The process does not start; every problem is listed at once. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** What this process needs is not there, for a reason outside of its settings: a port, a folder, a database. The message says what to do. */
export class StartError extends Error {
  override readonly name = 'StartError'
}
