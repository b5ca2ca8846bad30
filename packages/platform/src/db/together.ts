import { sqlstateOf } from './database-error.ts'

/** What the database says of a query because one before it had failed. */
const ALREADY_FAILED = '25P02'

/**
 * Queries of one transaction that do not wait for each other's answers: the database gets them at once and takes them in
 * this order. What failed is thrown when all are answered, so that none is still to be sent when the transaction ends.
 */
export async function together<Queries extends readonly Promise<unknown>[]>(
  ...queries: Queries
): Promise<{ -readonly [Index in keyof Queries]: Awaited<Queries[Index]> }> {
  const answers = await Promise.allSettled(queries)
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []))
  if (errors.length > 0) throw errors.find((error) => sqlstateOf(error) !== ALREADY_FAILED) ?? errors[0]
  return Promise.all(queries)
}
