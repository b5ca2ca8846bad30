import type { Message, Usage } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import type { AttachmentState } from '../db/column-types.ts'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { members, messageAttachments, messages, runEventChunks, runs } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { refundRun } from '../members/debit-allowance.ts'
import { appendOutbox } from '../outbox/outbox.repo.ts'
import { RUN_ERRORS, type RunErrorCode } from './run-errors.ts'
import { chargeCalls } from './charge-calls.ts'
import { type HeldRun, type ModelCall, type RunItemRecord, storeItems } from './run-progress.repo.ts'
import { isNotFromUser, isRun, type RunKey, type RunRow, sumRunUsage } from './runs.repo.ts'
import { runView, type RunView } from './run-view.ts'

/** A stretch of a run's event log, encoded and compressed by who writes it. */
export type EventChunk = { readonly firstSeq: number; readonly lastSeq: number; readonly body: Uint8Array }

const insertChunk = prepared((tx, { ownerId, runId, firstSeq, lastSeq, body }: RunKey & EventChunk) =>
  tx.insert(runEventChunks).values({ ownerId, runId, firstSeq, lastSeq, body }).onConflictDoNothing(),
)

/** Keeps a chunk, once however often it is stored. */
export async function storeChunk(tx: Tx, { ownerId, runId, chunk }: RunKey & { chunk: EventChunk }): Promise<void> {
  await insertChunk(tx, { ownerId, runId, ...chunk })
}

/** How a run ends and what it did not store before. */
export type Ending = {
  readonly state: 'completed' | 'failed' | 'cancelled'
  /** Exactly for `failed`. `message` replaces the code's own sentence; it must be fit for the caller. */
  readonly error: { readonly code: RunErrorCode; readonly message?: string } | null
  readonly items: readonly RunItemRecord[]
  /** The item in progress of a failed run. Dropped for a cancelled one. */
  readonly partial: RunItemRecord | null
  readonly calls: readonly ModelCall[]
  readonly lastEventSeq: number
  readonly eventChunk: EventChunk | null
}

/** Makes a run terminal, with all that belongs to it. Everything is locked and the run is active. */
export async function settleRun(tx: Tx, held: HeldRun, ending: Ending): Promise<RunView> {
  const { run, member, period } = held
  const { ownerId } = run
  await chargeCalls(tx, held, ending.calls)
  await storeItems(tx, run, ending.items)
  await markItems(tx, run, ending)
  if (ending.eventChunk) await storeChunk(tx, { ownerId, runId: run.id, chunk: ending.eventChunk })
  const usage = await sumRunUsage(tx, { ownerId, runId: run.id })
  const ended = await endRun(tx, run, ending, usage)
  const what = member && period && refundOf(run, ending, usage.output_tokens)
  if (what) await refundRun(tx, { run, period, what })
  const view = runView(ended, undefined)
  await appendOutbox(tx, ownerId, `run.${ending.state}`, view)
  return view
}

async function endRun(tx: Tx, run: RunRow, ending: Ending, usage: Usage): Promise<RunRow> {
  const { state, error, lastEventSeq } = ending
  const [ended] = await updateEnded(tx, {
    ownerId: run.ownerId,
    runId: run.id,
    memberId: run.memberId,
    state,
    usage,
    lastEventSeq,
    errorCode: error?.code ?? null,
    errorClass: error ? RUN_ERRORS[error.code].class : null,
    errorMessage: error ? (error.message ?? RUN_ERRORS[error.code].message) : null,
    attachments: await attachmentsOf(tx, run, state),
  })
  if (!ended) throw new Error('a locked run vanished')
  return ended
}

type Ended = RunKey &
  Pick<RunRow, 'memberId' | 'state' | 'usage' | 'lastEventSeq' | 'errorCode' | 'errorClass' | 'errorMessage'> & {
    readonly attachments: AttachmentState
  }

/** The run, what was attached to its message, and its member's count of active runs. */
const updateEnded = prepared((tx, ended: Ended) => {
  const { ownerId, runId, memberId, state, usage, lastEventSeq, errorCode, errorClass, errorMessage } = ended
  const { runId: ofRun, ownerId: ofOwner, state: attachmentState } = messageAttachments
  const settled = tx.$with('settled').as(
    tx
      .update(messageAttachments)
      .set({ state: ended.attachments })
      .where(and(eq(ofRun, runId), eq(ofOwner, ownerId), eq(attachmentState, 'pending'))),
  )
  const freed = tx.$with('freed').as(
    tx
      .update(members)
      .set({ activeRuns: sql`${members.activeRuns} - 1` })
      .where(and(sql`${members.id} = ${memberId}`, eq(members.ownerId, ownerId))),
  )
  return tx
    .with(settled, freed)
    .update(runs)
    .set({
      state,
      usage,
      finishedAt: sql`now()`,
      contextEnc: null,
      lastEventSeq: sql`greatest(${runs.lastEventSeq}, ${lastEventSeq})`,
      errorCode,
      errorClass,
      errorMessage,
    })
    .where(isRun({ ownerId, runId }))
    .returning()
})

/** A failed response stays in the history: its items and what it was writing, or at least that there was one. */
async function markItems(tx: Tx, run: RunRow, { state, partial }: Ending): Promise<void> {
  if (state === 'completed') return
  const answered = and(eq(messages.runId, run.id), eq(messages.ownerId, run.ownerId), isNotFromUser)
  const marked = await tx.update(messages).set({ status: state }).where(answered).returning({ id: messages.id })
  if (state === 'cancelled') return
  if (partial) await storeItems(tx, run, [partial], 'failed')
  else if (marked.length === 0) await storeItems(tx, run, [{ id: newId('msg'), item: emptyAnswer(run) }], 'failed')
}

const emptyAnswer = (run: RunRow): Message => ({
  type: 'message',
  role: 'assistant',
  status: 'incomplete',
  content: [],
  agent: run.agent,
  callerAgent: null,
})

/** Attachments of a failed response are not sent again; nor those of a cancelled one that said nothing. */
async function attachmentsOf(tx: Tx, run: RunRow, state: Ending['state']): Promise<AttachmentState> {
  const isOwn = and(eq(messages.runId, run.id), eq(messages.ownerId, run.ownerId), eq(messages.role, 'assistant'))
  const saidSomething = state === 'cancelled' && (await tx.$count(messages, isOwn)) > 0
  return state === 'completed' || saidSomething ? 'ok' : 'excluded'
}

/** Our failure costs nothing; the provider's costs nothing if it gave nothing; a run that never began costs nothing. */
function refundOf(run: RunRow, { state, error }: Ending, outputTokens: number): 'all' | 'message' | undefined {
  const errorClass = error && RUN_ERRORS[error.code].class
  if (errorClass === 'system') return 'all'
  if (errorClass === 'upstream' && outputTokens === 0) return 'message'
  return state === 'cancelled' && run.state === 'reserved' ? 'message' : undefined
}
