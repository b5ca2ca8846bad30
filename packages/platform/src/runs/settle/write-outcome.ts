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
  roleOf,
  type RunItemRecord,
  type RunOutputRecord,
} from '../../run-records/run-output.repo.ts'
import { isNotFromUser, type RunFacts, sumCalls } from '../../run-records/runs.repo.ts'
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

/**
 * Makes a run terminal, with all that belongs to it. Everything is locked and the run is active.
 *
 * @param earlier - What the run has cost before the first of `ending.calls`.
 */
export async function writeOutcome(tx: Tx, held: HeldRun, ending: Ending, earlier: Usage): Promise<RunView> {
  const usage = addUsage(earlier, sumCalls(ending.calls))
  const output = await outputOf(tx, held.run, ending)
  const [view] = await together(endRun(tx, held, { ending, usage, output }), chargeCalls(tx, held, ending.calls))
  const what = held.member && refundOf(ending, usage.output_tokens)
  if (what) await refundRun(tx, held.run, what)
  return view
}

/** A failed response stays in the history: its items and what it was writing, or at least that there was one. */
async function outputOf(tx: Tx, run: RunFacts, { state, items, partial, calls }: Ending): Promise<RunOutputRecord> {
  if (state === 'completed') return { items, calls }
  const stored = and(eq(messages.runId, run.id), eq(messages.ownerId, run.ownerId), isNotFromUser)
  const marked = await tx.update(messages).set({ status: state }).where(stored).returning({ id: messages.id })
  if (state === 'cancelled') return { items, calls, status: state }
  const isSilent = marked.length + items.length === 0
  const last = partial ?? (isSilent ? { id: newId('msg'), item: emptyAnswer(run) } : null)
  return { items: last ? [...items, last] : items, calls, status: state }
}

const emptyAnswer = (run: RunFacts): Message => ({
  type: 'message',
  role: 'assistant',
  status: 'incomplete',
  content: [],
  agent: run.agent,
  callerAgent: null,
})

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
    attachments: await attachmentsOf(tx, run, ending),
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

/** Attachments of a failed response are not sent again; nor those of a cancelled one without text. */
async function attachmentsOf(tx: Tx, run: RunFacts, { state, items }: Ending): Promise<AttachmentState> {
  if (state === 'completed') return 'ok'
  if (state === 'failed') return 'excluded'
  const isOwn = and(eq(messages.runId, run.id), eq(messages.ownerId, run.ownerId), eq(messages.role, 'assistant'))
  const saidSomething = items.some(({ item }) => roleOf(item) === 'assistant') || (await tx.$count(messages, isOwn)) > 0
  return saidSomething ? 'ok' : 'excluded'
}

/** Our failure costs nothing; the provider's costs nothing if it gave nothing; a run whose model was never asked costs nothing. */
function refundOf({ state, error, unasked }: Ending, outputTokens: number): 'all' | 'message' | undefined {
  const errorClass = error && RUN_ERRORS[error.code].class
  if (errorClass === 'system') return 'all'
  if (errorClass === 'upstream' && outputTokens === 0) return 'message'
  return state === 'cancelled' && unasked ? 'message' : undefined
}
