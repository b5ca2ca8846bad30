import { setTimeout as sleep } from 'node:timers/promises'
import type { CancelOutcome, CancelRequest, LiveRun } from './run-registry.ts'

/** Cancels a run of this process and waits for its end. */
export async function cancelAndWait(
  run: LiveRun,
  { mode, timeoutMs }: Pick<CancelRequest, 'mode' | 'timeoutMs'>,
): Promise<CancelOutcome> {
  run.control.cancel(mode)
  const waiting = new AbortController()
  const timeout = sleep(timeoutMs, null, { signal: waiting.signal, ref: false })
  timeout.catch(() => {}) // Stopped below, once the run has ended.
  const ended = await Promise.race([run.ended, timeout])
  waiting.abort()
  return ended || !run.soFar ? { ended } : { ended, soFar: run.soFar() }
}
