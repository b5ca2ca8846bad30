import { type Message, ServiceError } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import { insertAttachments, refreshAttachments } from '../../chats/store-attachments.ts'
import { findActiveRunId } from '../../chats/chats.repo.ts'
import type { RunSettings } from '../../db/column-types.ts'
import { RollbackWith, tenantOperation, type Tx } from '../../db/operation.ts'
import { prepared } from '../../db/prepared.ts'
import { chats, integrations, runs } from '../../db/schema.ts'
import { newId } from '../../ids.ts'
import { remainingOf } from '../../members/allowance-policy.ts'
import { debitRun } from '../../members/debit-and-refund.ts'
import { seal } from '../../security/seal.ts'
import type { HeldAllowance } from './admit-consumer.ts'
import { contextPlace, type RunContext, type SealedContext, toRunContext } from './read-run-context.ts'
import { type Admissible, type AdmitRun, occupied, type Reached, requireAdmissible } from './require-admissible.ts'
import { type Reservation, reserveInChat, reserveWithChat } from './reservation.repo.ts'
import type { RunRow } from '../../run-records/runs.repo.ts'
import { runView, type RunView } from '../../run-records/run-view.ts'
import { runViews } from '../../run-records/run-views.ts'

/** The run of a request: a new one, which begins now, or the one that this very request got before. */
export type Admission = Admitted | ({ readonly outcome: 'replayed' } & AnyAdmission)

/** A new run, with what it begins with, and the start of the process that it was reserved for. */
export type Admitted = { readonly outcome: 'admitted'; readonly context: RunContext } & Pick<AdmitRun, 'bootId'> &
  AnyAdmission

type AnyAdmission = {
  readonly run: RunView
  readonly aliasChatId: string | null
  readonly textOnly: boolean
  readonly settings: RunSettings
  /** The consumer's message limit, where it has one. `resetAt` is null for `lifetime`. */
  readonly messageLimit: { readonly limit: number; readonly remaining: number; readonly resetAt: string | null } | null
}

/**
 * Decides whether a completion may start and, if so, makes its run and reads what it begins with: all in one transaction.
 *
 * Whatever this throws, nothing was reserved. A request whose usageRequestId is known is answered before anything that
 * depends on the present state, and again after it: a retry is never refused because of its own run.
 *
 * @throws ServiceError `integration_not_found`, `integration_forbidden`, `insufficient_scope`,
 *   `usage_request_id_reused`, `integration_disabled`, `allowance_attribution_required`, `unknown_agency`, `invalid_agent`,
 *   `member_not_found`, `consumer_inactive`, `consumer_concurrency_exceeded`, `consumer_allowance_exhausted`,
 *   `chat_not_found`, `chat_alias_conflict`, `run_active`, `run_waiting`, `invalid_attachment_refresh`,
 *   `attachment_refresh_ambiguous`, `attachment_refresh_required`, `sandbox_file_not_found`, `server_draining`
 */
export const admitRun = tenantOperation(
  { source: import.meta.url, name: 'admitRun', lane: 'admission' },
  (tx, args: AdmitRun): Promise<Admission> => unlessKnown(tx, args, (reached) => reserve(tx, args, reached)),
)

/** Whether a completion would be refused now: for what is to be done before its admission. @throws ServiceError what `admitRun` throws */
export const checkAdmission = tenantOperation(
  { source: import.meta.url, name: 'checkAdmission', lane: 'admission' },
  async (tx, args: AdmitRun): Promise<void> => {
    await unlessKnown(tx, args, (reached) => requireAdmissible(tx, args, reached))
    throw new RollbackWith(undefined)
  },
)

/** Does the work for a request, or answers what it has got before. */
async function unlessKnown<Result>(
  tx: Tx,
  args: AdmitRun,
  work: (reached: Reached) => Promise<Result>,
): Promise<Result | Admission> {
  const reached = await requireOwnership(tx, args)
  const known = reached.isKnown ? await findReplay(tx, args) : undefined
  if (known) return known
  try {
    return await work(reached)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const replay = await findReplay(tx, args)
    throw replay ? new RollbackWith(replay) : error
  }
}

type Reaching = Pick<RunRow, 'ownerId' | 'integrationId' | 'usageRequestId' | 'consumerId' | 'bootId'>

const selectReached = prepared((tx, { ownerId, integrationId, usageRequestId, consumerId, bootId }: Reaching) => {
  const known = sql`SELECT 1 FROM runs WHERE integration_id = ${integrationId} AND usage_request_id = ${usageRequestId}`
  const member = sql`SELECT status FROM members
    WHERE integration_id = ${integrationId} AND consumer_id = ${consumerId} AND deleted_at IS NULL`
  return tx
    .select({
      integration: integrations,
      replicaState: sql<Reached['replicaState']>`(SELECT state FROM replicas WHERE boot_id = ${bootId})`,
      isKnown: sql<boolean>`EXISTS (${known})`,
      memberStatus: sql<Reached['memberStatus']>`(${member})`,
    })
    .from(integrations)
    .where(and(eq(integrations.id, integrationId), eq(integrations.ownerId, ownerId)))
})

/** The integration, also a deleted one, if it is the caller's and within reach of the API key. */
async function requireOwnership(tx: Tx, { ownerId, bootId, integrationIds, request }: AdmitRun): Promise<Reached> {
  const { apiIntegrationId, usageRequestId, consumerId } = request
  const key = { ownerId, integrationId: apiIntegrationId, usageRequestId, consumerId, bootId }
  const [reached] = await selectReached(tx, key)
  if (!reached) {
    // Row level security hides what is somebody else's; this route has to tell it from what is not there.
    const { rows } = await tx.execute(sql`SELECT owner_id FROM resolve_integration(${apiIntegrationId})`)
    throw new ServiceError(rows[0]?.['owner_id'] ? 'integration_forbidden' : 'integration_not_found')
  }
  if (integrationIds && !integrationIds.includes(apiIntegrationId)) throw new ServiceError('insufficient_scope')
  return reached
}

type RequestKey = { readonly ownerId: string; readonly integrationId: string; readonly usageRequestId: string }

const selectByRequest = prepared((tx, { ownerId, integrationId, usageRequestId }: RequestKey) =>
  tx
    .select({ run: runs, alias: chats.alias })
    .from(runs)
    .innerJoin(chats, eq(chats.id, runs.chatId))
    .where(
      and(eq(runs.integrationId, integrationId), eq(runs.usageRequestId, usageRequestId), eq(runs.ownerId, ownerId)),
    ),
)

/** @throws ServiceError `usage_request_id_reused` */
async function findReplay(tx: Tx, args: AdmitRun): Promise<Admission | undefined> {
  const { ownerId, request, fingerprint } = args
  const { apiIntegrationId: integrationId, usageRequestId } = request
  if (usageRequestId === null) return undefined
  const [found] = await selectByRequest(tx, { ownerId, integrationId, usageRequestId })
  if (!found) return undefined
  if (!Buffer.from(found.run.fingerprint).equals(fingerprint)) throw new ServiceError('usage_request_id_reused')
  const [view] = await runViews(tx, ownerId, [found.run])
  if (!view) throw new Error('a run has a view')
  return { outcome: 'replayed', ...admissionOf(found.run, { view, aliasChatId: found.alias }) }
}

async function reserve(tx: Tx, args: AdmitRun, reached: Reached): Promise<Admission> {
  const { ownerId, request } = args
  const admissible = await requireAdmissible(tx, args, reached)
  const { allowance, chat, refreshes } = admissible
  const { run, messageSeq, context } = await insertRun(tx, args, { ...admissible, integration: reached.integration })
  await refreshAttachments(tx, args, refreshes)
  const target = { ownerId, chatId: run.chatId, runId: run.id, messageSeq, dataKey: args.dataKey }
  await insertAttachments(tx, target, request.attachments)
  const hasAttachments = context.hasAttachments || request.attachments.length > 0
  return {
    outcome: 'admitted',
    bootId: args.bootId,
    ...admissionOf(run, { view: runView(run, undefined), aliasChatId: chat?.alias ?? null }),
    context: await toRunContext(tx, { ...context, hasAttachments }, args.dataKey),
    ...(allowance && { messageLimit: await chargeMessage(tx, run, allowance) }),
  }
}

/** The reservation itself: of all that want this chat or this usageRequestId, one row gets in. */
async function insertRun(
  tx: Tx,
  { ownerId, bootId, request, fingerprint, dataKey }: AdmitRun,
  { integration, agent, allowance, chat }: Admissible & Pick<Reached, 'integration'>,
): Promise<Reservation> {
  const id = newId('run')
  const { agencyId } = integration
  const { onDisconnect, whenRunnerLost = 'resume', runTimeoutSeconds, maxTurns, historyTokens } = integration.settings
  const { userContext, given } = request
  const context = userContext === null && !given ? null : JSON.stringify({ userContext, given } satisfies SealedContext)
  const reserved = await (chat ? reserveInChat : reserveWithChat)(tx, {
    id,
    ownerId,
    integrationId: integration.id,
    chatId: chat?.id ?? newId('chat'),
    fingerprint,
    agent: agent.name,
    agencyVersion: agent.agencyVersion,
    bootId,
    memberId: allowance?.member.id ?? null,
    periodStart: allowance?.period.periodStart ?? null,
    consumerId: request.consumerId,
    usageRequestId: request.usageRequestId,
    textOnly: integration.textOnly,
    input: {
      settings: {
        agencyId,
        onDisconnect,
        whenRunnerLost,
        runTimeoutSeconds,
        maxTurns,
        ...(historyTokens !== undefined && { historyTokens }),
      },
      sandboxFiles: request.sandboxFiles,
    },
    contextEnc: context === null ? null : seal(dataKey, contextPlace(ownerId, id), context),
    timeoutSeconds: runTimeoutSeconds,
    messageId: newId('msg'),
    item: userItem(request.message, agent.name),
  })
  // Lost against the same usageRequestId (the caller finds it and answers with that run) or against another run.
  if (!reserved) {
    throw await occupied(tx, ownerId, chat ? await findActiveRunId(tx, { ownerId, chatId: chat.id }) : undefined)
  }
  return reserved
}

function userItem(message: string, agent: string): Message {
  const content = message === '' ? [] : [{ type: 'input_text', text: message }]
  return { type: 'message', role: 'user', content, agent, callerAgent: null }
}

async function chargeMessage(tx: Tx, run: RunRow, { member }: HeldAllowance): Promise<Admission['messageLimit']> {
  const period = await debitRun(tx, { run, member, what: 'msg' }, { messages: 1, tokens: 0, costMicro: 0 })
  if (!period) throw new Error('a new run was charged before')
  const { messages: remaining } = remainingOf(member, period)
  if (member.limitMessages === null || remaining === null) return null
  const resetAt = member.period === 'lifetime' ? null : period.periodEnd.toISOString()
  const limit = member.limitMessages + period.extraMessages
  return { limit, remaining: Math.max(0, remaining), resetAt }
}

function admissionOf({ textOnly, input }: RunRow, shown: { view: RunView; aliasChatId: string | null }): AnyAdmission {
  const { view: run, aliasChatId } = shown
  return { run, aliasChatId, textOnly, settings: input.settings, messageLimit: null }
}
