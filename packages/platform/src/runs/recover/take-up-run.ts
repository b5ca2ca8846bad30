import { RUN_ERRORS, type RunError } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import type { RunSettings } from '../../db/column-types.ts'
import { tenantOperation, type Tx } from '../../db/operation.ts'
import { replicas, runs, runStates } from '../../db/schema.ts'
import { selectApprovals } from '../../run-records/approvals.repo.ts'
import { type HeldRun, holdRun } from '../../run-records/hold-run.ts'
import type { RunWriter } from '../../run-records/record-step.ts'
import { findRun, isRun, type RunFacts, type RunKey, usageBefore } from '../../run-records/runs.repo.ts'
import type { RunView } from '../../run-records/run-view.ts'
import { endingLength } from '../settle/ending-events.ts'
import { type Ending, writeOutcome } from '../settle/write-outcome.ts'
import { EVENTS_OF_ATTEMPT, MAX_STALLED } from './take-up-policy.ts'

/** A run that was given to this process. */
export type TakenRun = {
  readonly ownerId: string
  readonly runId: string
  /** The start of this process in which it was given the run: part of every write. */
  readonly bootId: string
  readonly chatId: string
  readonly agent: string
  readonly settings: RunSettings
  /** Null: no process had begun it. */
  readonly before: {
    /** How many processes have worked on it, this one included. */
    readonly attempt: number
    /** Processes that have died over it since its last step. */
    readonly stalled: number
    /** True: the process before has died. False: it has given the run up by itself. */
    readonly lost: boolean
    /** True: it has waited for a person, so that no client is expected to be there. */
    readonly waited: boolean
    /** The last event that is in the records; those of other stores are not counted. */
    readonly lastEventSeq: number
  } | null
}

/**
 * `taken`: this process goes on with the run. `ended`: nobody does. `left`: written nothing; it has an owner or an end, or
 * it is for a process of another version.
 */
export type TakeUp =
  | { readonly outcome: 'taken'; readonly run: TakenRun }
  | { readonly outcome: 'ended'; readonly run: RunView }
  | { readonly outcome: 'left' }

type TakeUpRun = RunWriter & {
  /** Of the run as it was seen. Whoever comes later than another one, also in the same process, takes nothing. */
  readonly attempt: number
  /** Of the states that this process knows. */
  readonly version: number
}

/**
 * Gives a run that has lost its process to this one: a new owner and a higher attempt, which make every write of the one
 * before void. Of all who try exactly one gets it.
 *
 * It ends instead when it was to be cancelled, when three processes have died over it without a step, and when its integration wants
 * it to.
 */
export const takeUpRun = tenantOperation(
  { source: import.meta.url, name: 'takeUpRun', lane: 'run' },
  async (tx, writer: TakeUpRun): Promise<TakeUp> => {
    const held = await holdRun(tx, writer)
    if (held?.run.attempt !== writer.attempt || !(await isFree(tx, held.run, writer.bootId))) return { outcome: 'left' }
    const settings = await readSettings(tx, writer)
    const ending = endingFor(held.run, settings)
    if (ending) {
      const earlier = await usageBefore(tx, writer, [])
      return { outcome: 'ended', run: await writeOutcome(tx, held, ending, earlier) }
    }
    if (!(await isKnown(tx, held, writer.version))) return { outcome: 'left' }
    return { outcome: 'taken', run: await give(tx, held.run, { bootId: writer.bootId, settings }) }
  },
)

async function readSettings(tx: Tx, key: RunKey): Promise<RunSettings> {
  const run = await findRun(tx, key)
  if (!run) throw new Error('a locked run vanished')
  return run.input.settings
}

/** Whether nobody works on the run, and this process is there to. */
async function isFree(tx: Tx, run: RunFacts, bootId: string): Promise<boolean> {
  if (run.state !== 'reserved' && run.state !== 'running') return false
  if ((await stateOf(tx, bootId)) !== 'live') return false
  // This process may have been given it without an answer.
  if (run.released || run.bootId === bootId) return true
  const state = await stateOf(tx, run.bootId)
  return state !== 'live' && state !== 'draining'
}

async function stateOf(tx: Tx, bootId: string): Promise<string | undefined> {
  const [replica] = await tx.select({ state: replicas.state }).from(replicas).where(eq(replicas.bootId, bootId))
  return replica?.state
}

const LOST: RunError = { code: 'runner_lost', message: RUN_ERRORS.runner_lost.message }

function endingFor(run: RunFacts, { whenRunnerLost }: RunSettings): Ending | undefined {
  const cancelled = run.cancelRequestedAt !== null
  const mayGoOn = run.released || (whenRunnerLost !== 'fail' && run.stalled < MAX_STALLED)
  if (mayGoOn && !cancelled) return undefined
  return endingByRecord(run, cancelled ? null : LOST)
}

/** The end of a run that no process works on: its events follow on all that one may have shown. Without an error it is cancelled. */
export function endingByRecord({ lastEventSeq, attempt }: RunFacts, error: RunError | null): Ending {
  const state = error ? 'failed' : 'cancelled'
  const shown = Math.max(lastEventSeq, attempt * EVENTS_OF_ATTEMPT)
  const length = endingLength({ status: state, error })
  return { state, error, items: [], partial: null, calls: [], lastEventSeq: shown + length, eventChunk: null }
}

/** A state of another version is left to a process that knows it, as long as the run may take. */
async function isKnown(tx: Tx, { run, now }: HeldRun, version: number): Promise<boolean> {
  const [kept] = await tx
    .select({ version: runStates.version })
    .from(runStates)
    .where(and(eq(runStates.runId, run.id), eq(runStates.ownerId, run.ownerId)))
  return !kept || kept.version === version || run.deadlineAt < now
}

type Given = Pick<TakenRun, 'bootId' | 'settings'>

async function give(tx: Tx, run: RunFacts, { bootId, settings }: Given): Promise<TakenRun> {
  const { ownerId, id: runId, chatId, agent, stalled, lastEventSeq, released } = run
  await tx
    .update(runs)
    .set({ bootId, attempt: sql`${runs.attempt} + 1`, released: false })
    .where(isRun({ ownerId, runId }))
  const waited = released && (await selectApprovals(tx, { ownerId, runId })).length > 0
  const before =
    run.state === 'reserved' ? null : { attempt: run.attempt + 1, stalled, lost: !released, waited, lastEventSeq }
  return { ownerId, runId, bootId, chatId, agent, settings, before }
}
