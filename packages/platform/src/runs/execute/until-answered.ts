import { setTimeout as sleep } from 'node:timers/promises'
import { isPassing } from '../../db/database-error.ts'

const RETRY_MS = 500

type Waiting = {
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/**
 * Asks the database until it answers, however often: a run waits rather than going on with what may be lost.
 *
 * @throws What the database refuses with. @throws AbortError when `signal` aborts while the database is away.
 */
export async function untilAnswered<T>(ask: () => Promise<T>, { signal, onError }: Waiting): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!isPassing(error)) throw error
      onError(error)
      await sleep(RETRY_MS, undefined, { ref: false, signal })
    }
  }
}
