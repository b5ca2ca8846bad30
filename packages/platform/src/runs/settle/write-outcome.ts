import { addUsage, type Message, RUN_ERRORS, type RunErrorCode, type Usage } from '@bureau/protocol'
import type { EventChunk } from '@bureau/runtime'
import { and, eq } from 'drizzle-orm'
import type { AttachmentState } from '../../db/column-types.ts'
import type { Tx } from '../../db/operation.ts'
import { messages } from '../../db/schema.ts'
import { together } from '../../db/together.ts'
import { newId } from '../../ids.ts'
import { refundRun } from '../../members/debit-and-refund.ts'
import { chargeCalls } from '../../run-records/charge-calls.ts'
import { updateEnded } from './ended-run.repo.ts'
import type { HeldRun } from '../../run-records/hold-run.ts'
import {
  type ModelCall,
  outputValues,
  type RunItemRecord,
  type RunOutputRecord,
  storeOutput,
} from '../../run-records/run-output.repo.ts'
import { AFTER_ALL, isNotFromUser, type RunFacts, sumCalls, sumRunUsage } from '../../run-records/runs.repo.ts'
import { runView, type RunView } from '../../run-records/run-view.ts'

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
  /** True: it was cancelled before its model was asked for anything. */
  readonly unasked?: boolean
}

/** Makes a run terminal, with all that belongs to it. Everything is locked and the run is active. */
export async function writeOutcome(tx: Tx, held: HeldRun, ending: Ending): Promise<RunView> {
  const [view] = await together(writeEnd(tx, held, ending), chargeCalls(tx, held, ending.calls))
  const what = held.member && refundOf(ending, view.usage?.output_tokens ?? 0)
  if (what) await refundRun(tx, held.run, what)
  return view
}

async function writeEnd(tx: Tx, held: HeldRun, ending: Ending): Promise<RunView> {
  const { run } = held
  const { state, calls } = ending
  // Nothing of a run that was completed has to be marked.
  if (state === 'completed') return endRun(tx, held, { ending, usage: await usageWith(tx, run, calls), output: ending })
  await storeOutput(tx, run, ending)
  await markItems(tx, run, ending)
  const usage = await sumRunUsage(tx, { ownerId: run.ownerId, runId: run.id, before: AFTER_ALL })
  return endRun(tx, held, { ending, usage, output: { items: [], calls: [] } })
}

/** What a run has cost with its last calls, of which some may be stored. */
async function usageWith(tx: Tx, { ownerId, id: runId }: RunFacts, calls: readonly ModelCall[]): Promise<Usage> {
  const before = calls[0]?.callSeq ?? AFTER_ALL
  return before === 1 ? sumCalls(calls) : addUsage(await sumRunUsage(tx, { ownerId, runId, before }), sumCalls(calls))
}

type End = { readonly ending: Ending; readonly usage: Usage; readonly output: RunOutputRecord }

async function endRun(tx: Tx, { run, now }: HeldRun, { ending, usage, output }: End): Promise<RunView> {
  const { state, error, eventChunk } = ending
  const ended = {
    state,
    usage,
    finishedAt: now,
    lastEventSeq: Math.max(run.lastEventSeq, ending.lastEventSeq),
    errorCode: error?.code ?? null,
    errorClass: error ? RUN_ERRORS[error.code].class : null,
    errorMessage: error ? (error.message ?? RUN_ERRORS[error.code].message) : null,
  }
  const view = runView({ ...run, ...ended }, undefined)
  const rows = await updateEnded(tx, {
    ownerId: run.ownerId,
    chatId: run.chatId,
    runId: run.id,
    ...outputValues(output),
    ...ended,
    memberId: run.memberId,
    attachments: await attachmentsOf(tx, run, state),
    firstSeq: eventChunk?.firstSeq ?? null,
    lastSeq: eventChunk?.lastSeq ?? null,
    body: eventChunk?.body ?? null,
    topic: `run.${state}`,
    eventId: newId('evt'),
    payload: view,
  })
  if (rows.length === 0) throw new Error('a locked run vanished')
  return view
}

/** A failed response stays in the history: its items and what it was writing, or at least that there was one. */
async function markItems(tx: Tx, run: RunFacts, { state, partial }: Ending): Promise<void> {
  if (state === 'completed') return
  const answered = and(eq(messages.runId, run.id), eq(messages.ownerId, run.ownerId), isNotFromUser)
  const marked = await tx.update(messages).set({ status: state }).where(answered).returning({ id: messages.id })
  if (state === 'cancelled') return
  const last = partial ?? (marked.length === 0 ? { id: newId('msg'), item: emptyAnswer(run) } : null)
  if (last) await storeOutput(tx, run, { items: [last], calls: [], status: 'failed' })
}

const emptyAnswer = (run: RunFacts): Message => ({
  type: 'message',
  role: 'assistant',
  status: 'incomplete',
  content: [],
  agent: run.agent,
  callerAgent: null,
})

/** Attachments of a failed response are not sent again; nor those of a cancelled one without text. */
async function attachmentsOf(tx: Tx, run: RunFacts, state: Ending['state']): Promise<AttachmentState> {
  const isOwn = and(eq(messages.runId, run.id), eq(messages.ownerId, run.ownerId), eq(messages.role, 'assistant'))
  const saidSomething = state === 'cancelled' && (await tx.$count(messages, isOwn)) > 0
  return state === 'completed' || saidSomething ? 'ok' : 'excluded'
}

/** Our failure costs nothing; the provider's costs nothing if it gave nothing; a run whose model was never asked costs nothing. */
function refundOf({ state, error, unasked }: Ending, outputTokens: number): 'all' | 'message' | undefined {
  const errorClass = error && RUN_ERRORS[error.code].class
  if (errorClass === 'system') return 'all'
  if (errorClass === 'upstream' && outputTokens === 0) return 'message'
  return state === 'cancelled' && unasked ? 'message' : undefined
}
