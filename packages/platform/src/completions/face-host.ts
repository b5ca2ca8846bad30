import { randomUUID } from 'node:crypto'
import type { AskedRun, FaceAgency, FaceDecision, FaceHost, FaceRun, FaceRunKey } from '@bureau/faces'
import { oauthServersOf } from '@bureau/framework'
import { type ApprovalRequest, type Integration, RunWords, ServiceError } from '@bureau/protocol'
import type { RunLogReader } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { type Caller, reachOf } from '../caller.ts'
import { getChat } from '../chats/manage-chats.ts'
import type { Platform } from '../context.ts'
import { baseUrlOf } from '../http/addresses.ts'
import { requireRoom } from '../http/admission-gate.ts'
import { callerOf } from '../http/callers.ts'
import { parseInput } from '../http/parse-input.ts'
import { readIntegration, readIntegrations } from '../integrations/describe-integrations.ts'
import { MAX_INTEGRATIONS } from '../integrations/manage-integrations.ts'
import { getRun, isFollowed } from '../run-records/read-runs.ts'
import type { CompletionRequest } from '../runs/admit/completion-request.ts'
import { cancelRun } from '../runs/cancel-run.ts'
import { findRunStream, isAtRest, isEnded, type RunStream } from '../runs/follow-run.ts'
import { readWaitingCalls } from '../runs/approve/decide-approvals.ts'
import { fingerprint } from '../security/fingerprint.ts'
import { decideRun } from './decide-run.ts'
import { newMessage, textOf } from './new-message.ts'
import { admitWhileOpen, streamOf } from './start-completion.ts'
import { readWithToken } from './token-life.ts'

const CANCEL_WAIT_MS = 60_000

/**
 * The platform as the protocols see it that both servers speak. An owner's integrations are the agencies, by their id or, where
 * there is one of it only, by the id of the agency.
 */
export class PlatformHost implements FaceHost {
  readonly #platform: Platform

  constructor(platform: Platform) {
    this.#platform = platform
  }

  async agencies(request: FastifyRequest): Promise<readonly FaceAgency[]> {
    const page = { limit: MAX_INTEGRATIONS, after: null }
    const { items } = await readIntegrations(this.#platform, callerOf(request, true), page)
    return items.flatMap((each) => this.#served(each))
  }

  async agency(request: FastifyRequest, name: string): Promise<FaceAgency | undefined> {
    const caller = callerOf(request, true)
    if (name.startsWith('int_')) return this.#byId(caller, name)
    if (!this.#platform.agencies.has(name)) return undefined
    const page = { agencyId: name, limit: 1, after: null }
    const { items, next } = await readIntegrations(this.#platform, caller, page)
    return next === null && items[0] ? this.#served(items[0])[0] : undefined
  }

  async callerOf(request: FastifyRequest): Promise<string> {
    return callerOf(request, true).ownerId
  }

  async begin(request: FastifyRequest, asked: AskedRun): Promise<FaceRun> {
    if (asked.decisions?.length) return this.#goOn(request, asked, asked.decisions)
    requireRoom(this.#platform)
    const completion = await this.#completion(request, asked)
    const admission = await admitWhileOpen(this.#platform, request, { completion, missingSandboxFiles: [] })
    if (admission.outcome === 'unknown') throw notKnown(request)
    return this.#run(request, await streamOf(this.#platform, request, admission), asked.kept)
  }

  async find(request: FastifyRequest, { runId }: FaceRunKey): Promise<FaceRun> {
    const caller = callerOf(request, true)
    return this.#run(request, await findRunStream(this.#platform, { ...reachOf(caller), runId }))
  }

  async cancel(request: FastifyRequest, { runId }: FaceRunKey): Promise<boolean> {
    const reach = reachOf(callerOf(request, true))
    const { status } = await this.#platform.store.db.run(getRun, { ...reach, runId, output: false })
    if (isEnded(status)) return false
    await cancelRun(this.#platform, { ownerId: reach.ownerId, runId, mode: 'immediate', waitMs: CANCEL_WAIT_MS })
    return true
  }

  async #byId(caller: Caller, id: string): Promise<FaceAgency | undefined> {
    if (caller.integrationIds && !caller.integrationIds.includes(id)) return undefined
    try {
      return this.#served(await readIntegration(this.#platform, caller, id))[0]
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'integration_not_found') return undefined
      throw error
    }
  }

  /** Nothing, when the agency is not there any more. */
  #served({ apiIntegrationId: name, agencyId, defaultAgent, createdAt }: Integration): FaceAgency[] {
    const agency = this.#platform.agencies.get(agencyId)
    const created = Math.floor(Date.parse(createdAt) / 1_000)
    if (!agency) return []
    return [{ name, agency, defaultAgent, createdAt: created, signsIn: oauthServersOf(agency).length > 0 }]
  }

  async #completion(request: FastifyRequest, asked: AskedRun): Promise<CompletionRequest> {
    const { served, input } = asked
    const caller = callerOf(request, true)
    const onBehalfOf = caller.consumerId ?? asked.onBehalfOf
    const { additionalInstructions, callerOptions, sharedState } = input
    const chat = await this.#conversationOf(caller, asked)
    const key = { ownerId: caller.ownerId, integrationId: served.name, ...chat }
    const message = await newMessage(this.#platform.store.db, key, input.message)
    const words = parseInput(RunWords, { message: textOf(message), user_context: input.userContext ?? null })
    return {
      apiIntegrationId: served.name,
      message: words.message,
      agent: input.agent ?? null,
      chatId: chat?.chatId ?? null,
      aliasChatId: chat?.aliasChatId ?? null,
      attachments: [],
      sandboxFiles: [],
      userContext: input.userContext ?? null,
      consumerId: onBehalfOf ?? null,
      usageRequestId: usageRequestIdOf(request),
      attachmentUrlRefreshes: {},
      given: {
        message,
        history: chat ? null : input.history,
        ...(additionalInstructions !== undefined && { additionalInstructions }),
        ...(callerOptions && { callerOptions }),
        ...(sharedState !== undefined && { sharedState }),
      },
    }
  }

  /**
   * The chat that a run belongs to; undefined for one of its own. Pages choose the names of threads, so that each consumer has names
   * of its own, and nobody can guess the alias of another one's.
   */
  async #conversationOf(caller: Caller, asked: AskedRun): Promise<Conversation | undefined> {
    const { served, continues, conversation, thread, onBehalfOf = null } = asked
    if (continues !== undefined) return { chatId: await this.#chatOfRun(caller, { served, runId: continues }) }
    if (conversation !== undefined) {
      return { chatId: await this.#chat(caller, { served, chatId: conversation }).catch(asThread) }
    }
    if (thread === undefined) return undefined
    if (isChatId(thread)) return { chatId: await this.#chat(caller, { served, chatId: thread }) }
    const consumerId = caller.consumerId ?? onBehalfOf
    const name = fingerprint(this.#platform.store.serverKey, { thread, consumerId })
    return { aliasChatId: `thread_${Buffer.from(name).toString('base64url')}` }
  }

  /** @throws ServiceError `chat_not_found` */
  async #chat(
    caller: Caller,
    { served, chatId }: { readonly served: FaceAgency; readonly chatId: string },
  ): Promise<string> {
    const { apiIntegrationId } = await this.#platform.store.db.run(getChat, { ...reachOf(caller), chatId })
    if (apiIntegrationId !== served.name) throw new ServiceError('chat_not_found')
    return chatId
  }

  /** @throws ServiceError `run_not_found`; `invalid_request`: the chat has gone on since. */
  async #chatOfRun(
    caller: Caller,
    { served, runId }: { readonly served: FaceAgency; readonly runId: string },
  ): Promise<string> {
    const reach = reachOf(caller)
    const { db } = this.#platform.store
    const { chatId, apiIntegrationId } = await db.run(getRun, { ...reach, runId, output: false })
    if (apiIntegrationId !== served.name) throw new ServiceError('run_not_found')
    if (!(await db.run(isFollowed, { ownerId: reach.ownerId, runId, chatId }))) return chatId
    const message = 'previous_response_id: another response has followed that one. Go on from the last one of the chat.'
    throw new ServiceError('invalid_request', { message })
  }

  /** @throws ServiceError `insufficient_scope`, `run_not_found`, and what `decideRun` throws. */
  async #goOn(
    request: FastifyRequest,
    { served, continues: runId = '', input, kept, decidesAll }: AskedRun,
    decisions: readonly FaceDecision[],
  ): Promise<FaceRun> {
    const caller = callerOf(request, true)
    if (!mayDecide(caller)) throw new ServiceError('insufficient_scope', { message: lacksApproval(caller) })
    if (input.message.length > 0) throw new ServiceError('invalid_request', { message: ALONE })
    const wanted = { ...reachOf(caller), runId }
    const { db } = this.#platform.store
    const { apiIntegrationId } = await db.run(getRun, { ...wanted, output: false })
    if (apiIntegrationId !== served.name) throw new ServiceError('run_not_found')
    if (decidesAll) requireAll(await db.run(readWaitingCalls, wanted), decisions)
    const asDecided = decisions.map(({ callId = '', approve, reason, arguments: given }) => ({
      callId,
      approve,
      ...(reason !== undefined && { reason }),
      ...(given !== undefined && { arguments: JSON.stringify(given) }),
    }))
    await decideRun(this.#platform, caller, { runId, decisions: asDecided })
    const stream = await findRunStream(this.#platform, wanted)
    const after = await lastAsked(stream.reader, new Set(asDecided.map(({ callId }) => callId)))
    return { ...this.#run(request, stream, kept), after }
  }

  /** @param kept - True: whoever leaves ends nothing, whatever the integration says. */
  #run(request: FastifyRequest, { run, reader }: RunStream, kept = true): FaceRun {
    const caller = callerOf(request, true)
    const read: RunLogReader['read'] = (after, signal) => reader.read(after, signal)
    const { runId, chatId, status, finishedAt } = run
    const leave = (kept ? undefined : this.#platform.executor.find(runId)?.follow()) ?? (() => {})
    return {
      runId,
      conversation: chatId,
      after: 0,
      read: caller.consumerId === undefined ? read : readWithToken(this.#platform, { caller, request }, read),
      approvalsUrl: `${baseUrlOf(this.#platform, request)}/v1/runs/${runId}/approvals`,
      mayDecide: mayDecide(caller),
      head: isAtRest(status) ? Number(run.lastEventId) : reader.head,
      isAtRest: isAtRest(status),
      ...(finishedAt !== null && { endedAt: Math.floor(Date.parse(finishedAt) / 1_000) }),
      leave,
    }
  }
}

/** Clients of OpenAI's APIs send again by themselves what ends with a 5xx. */
function notKnown({ headers }: FastifyRequest): ServiceError {
  const isRepeatable = headers['idempotency-key'] !== undefined
  const message =
    'It is not known whether the run has begun. With an Idempotency-Key, the same request can be sent again.'
  return new ServiceError('database_unavailable', {
    message,
    headers: isRepeatable ? {} : { 'x-should-retry': 'false' },
  })
}

type Conversation = { readonly chatId?: string; readonly aliasChatId?: string }

/** @throws ServiceError `approval_missing` */
function requireAll(waiting: readonly ApprovalRequest[], decisions: readonly FaceDecision[]): void {
  const missing = waiting.find(({ call_id: id }) => !decisions.some(({ callId }) => callId === id))
  if (!missing) return
  const message = `the call of ${missing.tool} is not decided about; answer all that wait together`
  throw new ServiceError('approval_missing', { message })
}

const ALONE = 'The run that waits takes no message with the decision. Send the message when it has ended.'

/** What a conversation that is not there is called in protocols that know no chats. @throws ServiceError */
function asThread(error: unknown): never {
  const isUnknown = error instanceof ServiceError && error.code === 'chat_not_found'
  throw isUnknown ? new ServiceError('thread_not_found') : error
}

/** Whether a thread is named as chats are: then it is that chat. */
const isChatId = (name = ''): boolean => /^chat_[0-9a-hjkmnp-tv-z]{26}$/.test(name)

/** As on the route of approvals; about which calls a consumer may decide, the integration says. */
const mayDecide = ({ scopes }: Caller): boolean => scopes.includes('*') || scopes.includes('runs:approve')

const lacksApproval = ({ consumerId }: Caller): string =>
  consumerId === undefined
    ? 'This API key may not decide about calls: it needs the scope runs:approve.'
    : 'This consumer token may not decide about calls: it needs the scope approve.'

/** The number of the last request for an approval that these decisions are about, and of those that came with it. */
async function lastAsked(log: RunLogReader, callIds: ReadonlySet<string>): Promise<number> {
  let found = 0
  for await (const { first, events } of log.read(0, new AbortController().signal)) {
    for (const [at, event] of events.entries()) {
      const isAsked = event.type === 'approval.requested'
      if (found > 0 && !isAsked) return found
      if (isAsked && (found > 0 || callIds.has(event.call_id))) found = first + at
    }
  }
  return found
}

/**
 * A client that sends an `Idempotency-Key` may repeat its request; others are never charged for one twice by accident.
 *
 * @throws ServiceError `invalid_request`: with a key that is not one the request could be charged twice.
 */
function usageRequestIdOf({ headers }: FastifyRequest): string {
  const key = headers['idempotency-key']
  if (key === undefined) return randomUUID()
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return key
  const message = 'Idempotency-Key must be 1 to 255 printable ASCII characters without spaces.'
  throw new ServiceError('invalid_request', { message })
}
