import { randomUUID } from 'node:crypto'
import { type Ask, Attempt } from './attempt.ts'
import type { Installation } from './installation.ts'
import { imageOf, messageOf } from './model.ts'

// oxlint-disable-next-line no-explicit-any -- bodies are read member by member
type Json = any

export type Answer = { readonly status: number; readonly body: Json }

/** Longer than any answer of a server that works: a server that is stopped answers nobody. */
const ANSWER_MS = 90_000

const MAX_RETRIES = 20

/** In every user_context: it must be found nowhere but in the request. */
export const CANARY = 'canary-5e1f-user-context'

let asks = 0

/** One integration of the installation, and all that was asked of it. */
export class Tenant {
  readonly integrationId: string
  readonly attempts: Attempt[] = []
  /** Adjustments by their Idempotency-Key: sent again until they are answered. */
  readonly grants = new Map<string, { readonly consumerId: string; readonly messages: number }>()
  readonly consumers: string[] = []
  readonly #installation: Installation

  private constructor(installation: Installation, integrationId: string) {
    this.#installation = installation
    this.integrationId = integrationId
  }

  static async create(installation: Installation, settings: object = {}): Promise<Tenant> {
    const body = { name: 'Faults', agencyId: 'shop', memberAllowancesEnabled: true, ...settings }
    const created = await new Tenant(installation, '').call('POST', '/v1/integrations', body)
    if (created.status !== 201) throw new Error(`no integration: ${JSON.stringify(created.body)}`)
    return new Tenant(installation, created.body.apiIntegrationId)
  }

  async addConsumer(allowance: object = {}): Promise<string> {
    const consumerId = `consumer-${randomUUID()}`
    const added = await this.call('POST', `/v1/integrations/${this.integrationId}/members`, {
      consumerId,
      allowance: { maxConcurrentRuns: 1_000, ...allowance },
    })
    if (added.status !== 201) throw new Error(`no member: ${JSON.stringify(added.body)}`)
    this.consumers.push(consumerId)
    return consumerId
  }

  ask(how: Partial<Ask> & Pick<Ask, 'consumerId'>): Ask {
    const number = ++asks
    const fresh = {
      usageRequestId: randomUUID(),
      chat: `chat-${number}`,
      behaviour: 'answer',
      withImage: false,
    } as const
    return { number, integrationId: this.integrationId, ...fresh, ...how }
  }

  /** Sends an ask to the process at this place. */
  send(ask: Ask, processIndex = 0): Attempt {
    const attempt = new Attempt(ask, (signal) => {
      const body = {
        apiIntegrationId: ask.integrationId,
        message: messageOf(ask.number, ask.behaviour, ask.chat),
        aliasChatId: ask.chat,
        usageRequestId: ask.usageRequestId,
        consumerId: ask.consumerId,
        user_context: { note: CANARY },
        ...(ask.rejectPending && { rejectPending: true }),
        ...(ask.withImage && { attachments: [{ type: 'input_image', image_url: imageOf(ask.number) }] }),
      }
      return this.#fetch('POST', '/get_completion_v2', { body, signal, processIndex })
    })
    this.attempts.push(attempt)
    return attempt
  }

  /** Sends an ask again as long as the server says that it is busy: a decision is asked for, not luck. */
  async sendUntilDecided(ask: Ask, processIndex = 0): Promise<Attempt> {
    for (let retries = 0; ; retries++) {
      const attempt = this.send(ask, processIndex)
      await attempt.answered
      if (attempt.status !== 503 || retries === MAX_RETRIES) return attempt
    }
  }

  /** Goes on reading a run behind an event. */
  follow(ask: Ask, runId: string, after: string, processIndex = 0): Attempt {
    const path = `/v1/runs/${runId}/events?starting_after=${after}`
    return new Attempt(ask, (signal) => this.#fetch('GET', path, { signal, processIndex }))
  }

  /** Asks again while the server is busy. @throws Error there was no answer. */
  async call(method: string, path: string, body?: unknown, sent: Sent = {}): Promise<Answer> {
    for (let retries = 0; ; retries++) {
      const answer = await this.#callOnce(method, path, { body, ...sent })
      if (answer.status !== 503 || retries === MAX_RETRIES) return answer
    }
  }

  /** Once, and of a process that may die meanwhile. */
  async tryCall(method: string, path: string, body?: unknown, sent: Sent = {}): Promise<Answer | undefined> {
    return this.#callOnce(method, path, { body, ...sent }).catch(() => undefined)
  }

  /** Approves all that a run has ever asked for, or not, like a person who may have done it before. */
  async decide(runId: string, approve: boolean, processIndex = 0): Promise<Answer | undefined> {
    const path = `/v1/runs/${runId}/approvals`
    const asked = await this.tryCall('GET', path, undefined, { processIndex })
    const decisions = asked?.body?.approvals?.map(({ callId }: Json) => ({ callId, approve }))
    return decisions && this.tryCall('POST', path, decisions, { processIndex })
  }

  /** All items of a list. */
  async list(path: string): Promise<Json[]> {
    const items: Json[] = []
    for (let cursor = ''; ;) {
      const { status, body } = await this.call('GET', `${path}${path.includes('?') ? '&' : '?'}limit=100${cursor}`)
      if (status !== 200) throw new Error(`GET ${path} answered ${status}: ${JSON.stringify(body)}`)
      items.push(...body.data)
      if (!body.hasMore) return items
      cursor = `&cursor=${body.nextCursor}`
    }
  }

  /** Grants messages once, however often it is sent. */
  async grant(consumerId: string, messages: number, key: string = randomUUID()): Promise<void> {
    this.grants.set(key, { consumerId, messages })
    const path = `/v1/integrations/${this.integrationId}/members/${consumerId}/allowance/adjustments`
    const body = { kind: 'grant', messages, note: 'fault runner' }
    await this.tryCall('POST', path, body, { headers: { 'idempotency-key': key } })
  }

  async #callOnce(method: string, path: string, sending: Sending): Promise<Answer> {
    const response = await this.#fetch(method, path, sending)
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    return { status: response.status, body: isJson ? JSON.parse(text) : text }
  }

  async #fetch(method: string, path: string, { body, headers, signal, processIndex = 0 }: Sending): Promise<Response> {
    const process = this.#installation.processes[processIndex]
    const limit = AbortSignal.timeout(ANSWER_MS)
    return fetch(`${process?.url ?? ''}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.#installation.apiKey}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    })
  }
}

type Sent = { readonly headers?: Record<string, string>; readonly processIndex?: number }
type Sending = Sent & { readonly body?: unknown; readonly signal?: AbortSignal }
