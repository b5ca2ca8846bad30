import type { Logger } from '@bureau/runtime'
import { eq } from 'drizzle-orm'
import { tenantOperation } from '../../db/operation.ts'
import { runs } from '../../db/schema.ts'
import type { PlatformStore } from '../../platform-store.ts'
import { chargeCalls } from '../../run-records/charge-calls.ts'
import { holdRun } from '../../run-records/hold-run.ts'
import type { RunWriter, WriteOutcome } from '../../run-records/record-step.ts'
import { type ModelCall, storeOutput } from '../../run-records/run-output.repo.ts'
import { isActive } from '../../run-records/run-view.ts'
import type { ActiveRun } from './active-run.ts'
import { untilAnswered } from './until-answered.ts'

/** Gives a run up that has stopped after a step, so that another process goes on with it at once. */
export async function handOverRun(
  run: ActiveRun,
  { store, log }: { readonly store: PlatformStore; readonly log: Logger },
): Promise<void> {
  run.recorder.flush()
  const { ownerId, runId, bootId } = run.reserved
  const { calls } = await run.progress.close()
  const giveUp = async (): Promise<void> => {
    const outcome = await store.db.run(releaseRun, { ownerId, runId, bootId, calls })
    if (outcome === 'fenced') return run.fence()
    log.info({ runId, steps: run.progress.steps }, 'run handed over: any process may go on with it')
    await run.log.handOver('run_handed_over')
  }
  const onError = (err: unknown): void => log.warn({ err, runId }, 'a run could not be handed over; it is tried again')
  await untilAnswered(giveUp, { signal: run.fencing, onError })
}

/** What the models have cost since the last step is recorded; what they have said since then is not. */
export const releaseRun = tenantOperation(
  { source: import.meta.url, name: 'releaseRun', lane: 'run' },
  async (tx, { ownerId, runId, bootId, calls }: RunWriter & { calls: readonly ModelCall[] }): Promise<WriteOutcome> => {
    const held = await holdRun(tx, { ownerId, runId })
    if (held?.run.bootId !== bootId || !isActive(held.run)) return 'fenced'
    await storeOutput(tx, held.run, { items: [], calls })
    await chargeCalls(tx, held, calls)
    await tx.update(runs).set({ released: true }).where(eq(runs.id, runId))
    return 'ok'
  },
)
