import { randomBytes } from 'node:crypto'
import { AllowancePolicy, type Message, type Usage } from '@bureau/protocol'
import type { Caller } from './caller.ts'
import type { Database } from './db/database.ts'
import { type Engine, openTestDatabase, queryRows } from './db/engines.contract.ts'
import { newId } from './ids.ts'
import { createIntegration, type NewIntegration } from './integrations/manage-integrations.ts'
import { registerMember } from './members/register-members.ts'
import { createOwner } from './owners/create-owner.ts'
import { equipStore, type PlatformStore } from './platform-store.ts'
import { admitCompletion } from './runs/admit/admit-completion.ts'
import type { Admission } from './runs/admit/admit-run.ts'
import type { CompletionRequest } from './runs/admit/completion-request.ts'
import { recordOutcome } from './runs/settle/record-outcome.ts'
import type { RunContext } from './runs/admit/read-run-context.ts'
import { startRun } from './runs/execute/start-run.ts'
import { insertReplica } from './runs/recover/replicas.repo.ts'
import type { ModelCall } from './run-records/run-output.repo.ts'
import type { Ending } from './runs/settle/write-outcome.ts'

/** A tenant in a test: an owner with one integration, and short ways to do what callers and runners do. */
export type TestTenant = {
  readonly caller: Caller
  readonly ownerId: string
  readonly integrationId: string
  admit(request?: Partial<CompletionRequest>, options?: { bootId?: string }): Promise<Admission>
  addMember(consumerId: string, allowance?: Record<string, unknown>): Promise<void>
  start(admission: Admission, bootId?: string): Promise<string>
  /** What the runner of a run that it has started knows of it. */
  context(admission: Admission, bootId: string): Promise<RunContext>
  finish(admission: Admission, ending?: Partial<Ending>, bootId?: string): Promise<string>
}

/** A store on an empty database, with one live process to run things. Each test makes its own tenants. */
export async function openTestStore(
  engine: Engine,
  isNew = false,
): Promise<{
  store: PlatformStore
  db: Database
  url: string
  bootId: string
  rows: (query: string) => Promise<Record<string, unknown>[]>
  addTenant: (integration?: Partial<NewIntegration>) => Promise<TestTenant>
  addReplica: () => Promise<string>
  drop: () => Promise<void>
}> {
  const { db, url, drop } = await openTestDatabase(engine, isNew)
  const store = await equipStore(db, { masterKey: new Uint8Array(randomBytes(32)), issuer: 'https://test.example' })
  const addReplica = async (): Promise<string> => {
    const bootId = newId('boot')
    await db.run(insertReplica, { bootId, version: 'test', lockId: null })
    return bootId
  }
  const bootId = await addReplica()
  return {
    store,
    db,
    url,
    bootId,
    rows: (query) => db.run(queryRows, query),
    addTenant: (integration) => addTenant(store, bootId, integration),
    addReplica,
    drop,
  }
}

export const AGENCIES = { shop: { version: '1', entryAgents: ['CEO', 'Clerk'] } }

export async function addTenant(
  store: PlatformStore,
  bootId: string,
  settings: Partial<NewIntegration> = {},
): Promise<TestTenant> {
  const { db } = store
  const { id: ownerId } = await createOwner(db, store.dataKeys, { name: 'Ada' })
  const caller: Caller = { ownerId, keyId: newId('key'), scopes: ['*'], integrationIds: null, expiresAt: null }
  const integration = { name: 'Support', agencyId: 'shop', defaultAgent: 'CEO', ...settings }
  const view = await db.run(createIntegration, { ownerId, actor: caller.keyId, integration })
  const integrationId = view.apiIntegrationId
  const writer = (admission: Admission, boot: string) => ({ ownerId, runId: admission.run.runId, bootId: boot })
  return {
    caller,
    ownerId,
    integrationId,
    admit: async (request, options = {}) => {
      const signal = new AbortController().signal
      const admission = await admitCompletion(
        store,
        caller,
        completion({ apiIntegrationId: integrationId, ...request }),
        {
          bootId: options.bootId ?? bootId,
          agencies: AGENCIES,
          missingSandboxFiles: [],
          signal,
        },
      )
      if (admission.outcome === 'unknown') throw new Error('the outcome of the admission is unknown')
      return admission
    },
    addMember: async (consumerId, allowance) => {
      const member = { consumerId, allowance: allowance ? AllowancePolicy.parse(allowance) : null }
      await db.run(registerMember, { ownerId, integrationId, actor: 'key_test', member })
    },
    start: async (admission, boot = bootId) => {
      const dataKey = await store.dataKeys.of(ownerId)
      return (await db.run(startRun, { ...writer(admission, boot), agencyVersion: null, dataKey })).outcome
    },
    context: async (admission, boot) => {
      const dataKey = await store.dataKeys.of(ownerId)
      const started = await db.run(startRun, { ...writer(admission, boot), agencyVersion: null, dataKey })
      if (started.outcome !== 'started') throw new Error(started.outcome)
      return started.context
    },
    finish: async (admission, ending, boot = bootId) => {
      const complete: Ending = { ...COMPLETED, ...ending }
      return (await db.run(recordOutcome, { ...writer(admission, boot), ending: complete })).outcome
    },
  }
}

const COMPLETED: Ending = {
  state: 'completed',
  error: null,
  items: [],
  partial: null,
  calls: [],
  lastEventSeq: 0,
  eventChunk: null,
}

export function completion(request: Partial<CompletionRequest>): CompletionRequest {
  return {
    apiIntegrationId: '',
    message: 'Hello',
    agent: null,
    chatId: null,
    aliasChatId: null,
    attachments: [],
    sandboxFiles: [],
    userContext: null,
    consumerId: null,
    usageRequestId: null,
    attachmentUrlRefreshes: {},
    ...request,
  }
}

/** An answer of the entry agent, ready to be stored. */
export function answer(text: string): { id: string; item: Message } {
  const content = [{ type: 'output_text', text }]
  return { id: newId('msg'), item: { type: 'message', role: 'assistant', content, agent: 'CEO', callerAgent: null } }
}

export function modelCall(callSeq: number, usage: Partial<Usage> = {}): ModelCall {
  const counts = { request_count: 1, cached_tokens: 0, cache_write_tokens: 0, input_tokens: 50, output_tokens: 12 }
  const total_tokens = (usage.input_tokens ?? 50) + (usage.output_tokens ?? 12)
  return {
    callSeq,
    agent: 'CEO',
    model: 'gpt',
    priced: true,
    usage: { ...counts, total_tokens, total_cost: 0.0001, ...usage },
  }
}
