import type { PoolClient, QueryConfig, QueryResult } from 'pg'

/** Statements beyond these are sent without a name: whoever makes texts on the fly must not fill the server's memory. */
const MAX_NAMES = 500

const names = new Map<string, string>()

/** The same name for the same text on every connection; undefined when there are too many. */
function nameOf(text: string): string | undefined {
  const known = names.get(text)
  if (known !== undefined || names.size >= MAX_NAMES) return known
  const name = `bureau_${names.size + 1}`
  names.set(text, name)
  return name
}

/** A connection for drizzle on which the server parses and plans each statement once and then keeps it, under a name. */
export function withNamedStatements(client: PoolClient): PoolClient {
  const query = (config: QueryConfig, values?: unknown[]): Promise<QueryResult> => {
    const name = nameOf(config.text)
    if (name !== undefined) config.name = name // made by drizzle for this one query, which does not read it
    return client.query(config, values)
  }
  // Drizzle asks a connection for nothing but `query`, always in this form.
  return { query } as unknown as PoolClient
}
