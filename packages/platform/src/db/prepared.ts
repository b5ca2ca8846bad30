import { is, Param, Placeholder, sql } from 'drizzle-orm'
import type { Tx } from './operation.ts'

type Query<Rows> = {
  prepare(name: string): { execute(values?: Record<string, unknown>): Promise<Rows> }
}

/**
 * A query whose text is made once for each connection, not every time: for what every run does.
 *
 * `build` writes the query as for one call. The values that it is given are stand-ins: it may hand each of them to a
 * column or to `sql`, and nothing else.
 */
export function prepared<Values extends object, Rows>(
  build: (tx: Tx, values: Values) => Query<Rows>,
): (tx: Tx, values: Values) => Promise<Rows> {
  const known = new WeakMap<Tx, ReturnType<Query<Rows>['prepare']>>()
  return (tx, values) => {
    let query = known.get(tx)
    if (!query) {
      query = build(tx, STAND_INS as Values).prepare('')
      encodeNulls(query)
      known.set(tx, query)
    }
    return query.execute(values as Record<string, unknown>)
  }
}

const STAND_INS = new Proxy({}, { get: (_, name) => sql.placeholder(String(name)) })

/** Null is null for every column, as in a query that is not prepared; drizzle would hand it to the column's encoder. */
function encodeNulls(query: object): void {
  const { params } = query as { params: unknown[] }
  for (const [index, param] of params.entries()) {
    if (!is(param, Param) || !is(param.value, Placeholder)) continue
    const { encoder } = param
    const mapToDriverValue = (value: unknown): unknown => (value === null ? null : encoder.mapToDriverValue(value))
    params[index] = new Param(param.value, { mapToDriverValue })
  }
}
