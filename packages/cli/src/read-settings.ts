import { ConfigError } from '@bureau/protocol'

type Readers<Settings> = { readonly [Name in keyof Settings]: () => Settings[Name] }

/** Reads settings of several kinds: those that are valid, and a line for each mistake in the others. */
export function examineSettings<Settings extends object>(
  readers: Readers<Settings>,
): { readonly valid: Partial<Settings>; readonly problems: readonly string[] } {
  const valid: Partial<Settings> = {}
  const problems = new Set<string>() // A variable that two kinds read is wrong once.
  for (const name of Object.keys(readers) as (keyof Settings)[]) {
    try {
      valid[name] = readers[name]()
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      for (const problem of error.message.split('\n')) problems.add(problem)
    }
  }
  return { valid, problems: [...problems] }
}

/** @throws ConfigError with the mistakes of all of them. */
export function readSettings<Settings extends object>(readers: Readers<Settings>): Settings {
  const { valid, problems } = examineSettings(readers)
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  return valid as Settings
}
