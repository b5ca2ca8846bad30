import {
  type Agency,
  decideCalls,
  loggedFailure,
  runAgency,
  type RunObserver,
  type RunResume,
  RunState,
} from '@bureau/framework'
import { type ApprovalRequest, ERRORS } from '@bureau/protocol'
import type { Logger } from '@bureau/runtime'
import type { AttachmentAccess } from '../../attachments/attachment-access.ts'
import { AttachmentFailure } from '../../attachments/attachment-failure.ts'
import type { BlobStore } from '../../attachments/blob-store.ts'
import { loadAttachments } from '../../attachments/load-attachments.ts'
import { type AttachmentNote, noteAttachments } from '../../chats/note-attachment.ts'
import { DatabaseError } from '../../db/database.ts'
import type { AgencyMount } from '../../mount/agency-mount.ts'
import type { AgencyMounts } from '../../mount/agency-mounts.ts'
import { mountTools } from '../../mount/mount-tools.ts'
import type { SignIns } from '../../oauth/open-sign-ins.ts'
import type { PlatformStore } from '../../platform-store.ts'
import type { RunContext } from '../admit/read-run-context.ts'
import { handOverRun } from './hand-over-run.ts'
import { startRun, type StartOutcome } from './start-run.ts'
import type { ActiveRun } from './active-run.ts'
import { type AttachmentParts, composeInput, type ToSummarize } from './compose-input.ts'
import { findLeftOut, keepSummary, readLeftOut } from './left-out.ts'
import { withdrawnOf } from './shown-items.ts'
import { type Outcome, settleRun } from './settle-run.ts'
import { suspendRun } from './suspend-run.ts'
import { untilAnswered } from './until-answered.ts'

export type ExecuteOptions = {
  readonly store: PlatformStore
  readonly agencies: ReadonlyMap<string, Agency>
  readonly signIns: SignIns
  readonly attachmentAccess: AttachmentAccess
  readonly blobs: BlobStore
  readonly mounts: AgencyMounts
  /** Watches a run, as a part of the trace that a `traceparent` header names. */
  readonly observe: (traceParent: string | undefined) => RunObserver | undefined
  readonly log: Logger
  /** How long a person may take to decide about a call, in milliseconds. */
  readonly approvalMs: number
}

const CANCELLED: Outcome = { status: 'cancelled', usage: null, error: null }
const BROKEN: Outcome = { status: 'failed', usage: null, error: { code: 'internal_error' } }

const NOT_BEGUN = { cancel_requested: CANCELLED, broken: BROKEN }

/** It was there when the run was reserved, in another process. */
const AGENCY_GONE: Outcome = {
  status: 'failed',
  usage: null,
  error: { code: 'invalid_configuration', message: ERRORS.unknown_agency.message },
}

/** It was there when the run was reserved. */
const FILE_GONE: Outcome = {
  status: 'failed',
  usage: null,
  error: { code: 'attachment_fetch_failed', message: 'A file of the agency mount is no longer there.' },
}

/**
 * Works on a run from its start to the record of its end. Never throws.
 *
 * @param context - What its admission has read; null for a run that was taken up, which is read anew.
 */
export async function executeRun(run: ActiveRun, context: RunContext | null, options: ExecuteOptions): Promise<void> {
  const { runId, ownerId, settings } = run.reserved
  const startedAt = performance.now()
  try {
    const begun = context ? { outcome: 'started' as const, context } : await begin(run, options)
    if (begun.outcome === 'fenced') return run.fence()
    const finish = begun.outcome === 'started' ? await work(run, begun.context, options) : NOT_BEGUN[begun.outcome]
    if (run.fenced) return
    if (run.control.isHandedOver) return await handOverRun(run, options)
    const end = finish.approvals ? await suspend(run, finish.approvals, options) : finish
    if (end === undefined) return
    await settleRun(run, end, options)
    const { status, error, usage } = end
    const durationMs = Math.round(performance.now() - startedAt)
    const facts = { runId, ownerId, agency: settings.agencyId, status, code: error?.code, durationMs, usage }
    options.log.info(facts, 'run ended')
  } catch (error) {
    if (!run.fenced) options.log.error({ err: error, runId }, 'a run was lost')
    run.fence()
  }
}

/** Leaves a run to a person; otherwise says how it is to end. */
async function suspend(
  run: ActiveRun,
  approvals: readonly ApprovalRequest[],
  options: ExecuteOptions,
): Promise<Outcome | undefined> {
  if (run.stoppedBy) return CANCELLED
  try {
    return (await suspendRun(run, approvals, options)) ? undefined : CANCELLED
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    options.log.error({ err: error, runId: run.reserved.runId }, 'a run cannot be left to wait')
    return BROKEN
  }
}

/** Begins a run that was taken up, however often the database has to be asked. */
async function begin(
  run: ActiveRun,
  { store, agencies, log }: ExecuteOptions,
): Promise<StartOutcome | { readonly outcome: 'broken' }> {
  const { ownerId, runId, bootId, settings } = run.reserved
  const agencyVersion = agencies.get(settings.agencyId)?.version ?? null
  const start = async (): Promise<StartOutcome> => {
    const dataKey = await store.dataKeys.of(ownerId)
    return store.db.run(startRun, { ownerId, runId, bootId, agencyVersion, dataKey })
  }
  const onError = (err: unknown): void => log.warn({ err, runId }, 'a run could not be started; it is tried again')
  try {
    return await untilAnswered(start, { signal: run.fencing, onError })
  } catch (error) {
    if (run.fenced) return { outcome: 'fenced' }
    log.error({ err: error, runId }, 'a run could not be started')
    return { outcome: 'broken' }
  }
}

async function work(run: ActiveRun, context: RunContext, options: ExecuteOptions): Promise<Outcome> {
  const { ownerId, runId, settings, takenUp } = run.reserved
  let unasked = !takenUp
  try {
    const agency = options.agencies.get(settings.agencyId)
    if (!agency) return AGENCY_GONE
    const resume = resumeOf(run, context)
    const mount = await options.mounts.of({ ownerId, integrationId: context.integrationId })
    if ((await mount.missing(context.input.sandboxFiles)).length > 0) return FILE_GONE
    const parts = await readAttachments(run, context, options)
    if ('status' in parts) return parts
    if (run.control.stopSignal.aborted) return { ...CANCELLED, unasked }
    unasked = false
    return await converse(run, { context, parts, agency, mount, resume }, options)
  } catch (error) {
    if (run.control.signal.aborted) return { ...CANCELLED, unasked }
    options.log.error({ err: error, runId }, 'a run could not be worked on')
    return BROKEN
  }
}

/** Everything that the conversation has attached, or how the run fails for want of it. */
async function readAttachments(
  run: ActiveRun,
  { history }: RunContext,
  { store, attachmentAccess: access, blobs, log }: ExecuteOptions,
): Promise<AttachmentParts | Outcome> {
  const { ownerId, runId } = run.reserved
  const attached = history.flatMap(({ attachments }) => attachments)
  if (attached.length === 0) return new Map()
  const note = async (notes: readonly AttachmentNote[]): Promise<void> => {
    if (notes.length === 0) return
    const write = (): Promise<void> => store.db.run(noteAttachments, { ownerId, notes })
    const onError = (err: unknown): void => log.warn({ err, runId }, 'a write of a run is repeated')
    await untilAnswered(write, { signal: run.control.signal, onError })
  }
  try {
    const readBlob = (sha256: Uint8Array): Promise<Uint8Array | undefined> => blobs.read(ownerId, sha256)
    const loaded = await loadAttachments(attached, { access, readBlob, signal: run.control.signal })
    await note(loaded.notes)
    return loaded.parts
  } catch (error) {
    if (!(error instanceof AttachmentFailure)) throw error
    await note(error.notes)
    log.info({ err: error, runId }, 'an attachment could not be used')
    return { status: 'failed', usage: null, error: { code: error.code, message: error.message } }
  }
}

type Work = {
  readonly context: RunContext
  readonly parts: AttachmentParts
  readonly agency: Agency
  readonly mount: AgencyMount
  readonly resume: RunResume | undefined
}

/** From where the run goes on, when another process has begun it. */
function resumeOf({ reserved, progress, log }: ActiveRun, { recorded }: RunContext): RunResume | undefined {
  const { takenUp } = reserved
  if (!takenUp || !recorded) return undefined
  progress.restore(recorded)
  // Whoever reads from the start finds no more of the log than this process writes.
  if (takenUp.log.earlier === 0) log.append({ type: 'log.reset', reason: 'log_lost', new_messages: progress.messages })
  const kept = recorded.state === null ? null : RunState.parse(JSON.parse(recorded.state))
  const state = kept && decideCalls(kept, recorded.decisions, { rejectOthers: false })
  const messages = recorded.items.map(({ item }) => item)
  const { attempt, lost, shown } = takenUp
  return { state, messages, usage: recorded.usage, attempt, lost, withdrawn: withdrawnOf(shown, { messages, state }) }
}

/** What the run is to sum up before it begins; undefined while its chat fits into the budget. */
async function toSummarize(
  { reserved }: ActiveRun,
  context: RunContext,
  { store: { db }, log }: ExecuteOptions,
): Promise<ToSummarize | undefined> {
  const { ownerId, runId, bootId } = reserved
  const { chatId, given, summarized } = context
  if (given?.history) return undefined
  const found = await findLeftOut((range) => db.run(readLeftOut, { ownerId, chatId, ...range }), context)
  return (
    found && {
      ...found,
      summary: summarized.summary,
      keep: (summary) => db.run(keepSummary, { ownerId, runId, bootId, summary, upTo: found.upTo }),
      failed: (error) => log.warn({ err: error, runId }, 'a chat could not be summed up; the next run tries again'),
    }
  )
}

async function converse(run: ActiveRun, work: Work, options: ExecuteOptions): Promise<Outcome> {
  const { context, parts, agency, mount, resume } = work
  const { ownerId, runId, settings, traceParent } = run.reserved
  const leftOut = agency.summarizeHistory && !resume ? await toSummarize(run, context, options) : undefined
  const ended = await runAgency(agency, composeInput(context, parts, leftOut), {
    runId,
    environment: { ...options.signIns.environmentOf(agency, ownerId), observer: options.observe(traceParent) },
    sink: run.recorder,
    journal: run.progress,
    resume,
    control: run.control,
    approvals: { lifeMs: options.approvalMs },
    // Agents of an integration without files need no tools for them.
    tools: context.hasFiles || context.input.sandboxFiles.length > 0 ? mountTools(mount) : [],
    maxTurns: settings.maxTurns,
    timeoutMs: resume ? Math.max(1, context.remainingMs) : settings.runTimeoutSeconds * 1_000,
    onFailure: (error) => options.log.warn({ ...loggedFailure(error), runId }, 'run failed'),
    onToolFailure: (error, facts) => options.log.warn({ err: error, ...facts }, 'tool failed'),
  })
  const { status, usage, error, approvals, file_ids_map: fileIdsMap, caller_calls: callerCalls } = ended
  const known = { ...(fileIdsMap && { fileIdsMap }), ...(callerCalls && { callerCalls }) }
  return { status, usage, error, ...known, ...(approvals && { approvals }) }
}
