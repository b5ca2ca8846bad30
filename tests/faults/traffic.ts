import { randomUUID } from 'node:crypto'
import type { Scene } from './plan.ts'
import type { ServerProcess } from './server-process.ts'
import type { Answer } from './tenant.ts'

/** One round of everything that callers do; requests that the process does not survive are not asked again. */
export async function oneRound(scene: Scene, consumerId: string): Promise<void> {
  const { tenant, installation, random } = scene
  const process = installation.processes[0]
  if (!process) return
  const chat = `round-${Math.floor(random() * 1e9)}`
  const talk = async (): Promise<void> => {
    await tenant.send(tenant.ask({ consumerId, chat, behaviour: 'tool', withImage: true })).over
    const second = tenant.send(tenant.ask({ consumerId, chat }))
    await second.over
    if (second.runId !== null) await tenant.follow(second.ask, second.runId, '0').over
  }
  await Promise.all([
    talk(),
    holdAndCancel(scene, consumerId, process),
    decide(scene, consumerId),
    leaveWaiting(scene, consumerId),
    sendTwice(scene, consumerId),
    manage(scene, consumerId),
    upload(scene),
  ])
}

/** A run that lasts until its first answer and its log were stored, and one that is cancelled. */
async function holdAndCancel(
  { tenant, installation }: Scene,
  consumerId: string,
  process: ServerProcess,
): Promise<void> {
  const awaited = installation.scale.redis ? ['recordStep'] : ['recordStep', 'appendEventChunk']
  const stored = Promise.all(awaited.map((name) => process.reached(name, (process.serving.get(name) ?? 0) + 1)))
  const held = tenant.send(tenant.ask({ consumerId, behaviour: 'tool-hold' }))
  const unwanted = tenant.send(tenant.ask({ consumerId, behaviour: 'hold' }))
  await Promise.all([held.speaking, unwanted.speaking])
  if (unwanted.runId !== null) {
    await tenant.tryCall('POST', `/v1/runs/${unwanted.runId}/cancel`, { cancel_mode: 'immediate' })
  }
  await Promise.race([stored, held.over])
  const second = held.runId === null ? held : tenant.follow(held.ask, held.runId, held.lastId)
  installation.model.release()
  await Promise.all([held.over, unwanted.over, second.over])
}

/** A run that waits for a person, and goes on with the decision. */
async function decide({ tenant }: Scene, consumerId: string): Promise<void> {
  const attempt = tenant.send(tenant.ask({ consumerId, behaviour: 'pay' }))
  await attempt.over
  if (attempt.runId === null || attempt.outcome !== 'ended') return
  await tenant.decide(attempt.runId, true)
  await tenant.follow(attempt.ask, attempt.runId, attempt.lastId).over
}

/** Two runs that wait and about which nobody decides: one is cancelled, and in the chat of the other another message is sent. */
async function leaveWaiting({ tenant }: Scene, consumerId: string): Promise<void> {
  const [unwanted, replaced] = [1, 2].map(() => tenant.send(tenant.ask({ consumerId, behaviour: 'pay' })))
  await Promise.all([unwanted!.over, replaced!.over])
  await tenant.tryCall('POST', `/v1/runs/${unwanted!.runId}/cancel`, { cancel_mode: 'immediate' })
  await tenant.send(tenant.ask({ consumerId, chat: replaced!.ask.chat, rejectPending: true })).over
}

async function sendTwice({ tenant }: Scene, consumerId: string): Promise<void> {
  const ask = tenant.ask({ consumerId })
  const both = [tenant.send(ask), tenant.send(ask)]
  await Promise.all(both.map((attempt) => attempt.over))
  const query = `apiIntegrationId=${tenant.integrationId}&usageRequestId=${ask.usageRequestId}`
  const found = await tenant.tryCall('GET', `/v1/chat_status?${query}`)
  const chatId = found?.body?.chatId
  if (chatId === undefined) return
  await tenant.tryCall('GET', `/v1/chats/${chatId}/messages`)
  await tenant.tryCall('GET', `/v1/chats/${chatId}/status`)
  await tenant.tryCall('PATCH', `/v1/chats/${chatId}`, { title: 'Faults' })
}

/** What owners do besides. */
async function manage({ tenant }: Scene, consumerId: string): Promise<void> {
  const integration = `/v1/integrations/${tenant.integrationId}`
  await tenant.grant(consumerId, 1)
  const calls: readonly (readonly [method: string, path: string, body?: object])[] = [
    ['PATCH', `${integration}/members/${consumerId}`, { displayName: 'Ada' }],
    ['PUT', `${integration}/members/${consumerId}/allowance`, { messages: null, maxConcurrentRuns: 1_000 }],
    ['GET', `${integration}/members/${consumerId}/allowance`],
    ['GET', `${integration}/members/${consumerId}/allowance/ledger`],
    ['PATCH', integration, { description: 'Faults' }],
    ['GET', '/v1/runs?limit=1'],
    ['GET', '/v1/usage/records?limit=1'],
    ['GET', `/v1/usage/summary?groupBy=integration`],
    ['GET', '/readyz'],
  ]
  const headers = { 'idempotency-key': randomUUID() }
  await tenant.tryCall('POST', '/create_new_chat', { apiIntegrationId: tenant.integrationId }, { headers })
  for (const [method, path, body] of calls) await tenant.tryCall(method, path, body)
}

async function upload({ tenant }: Scene): Promise<void> {
  const asked = { apiIntegrationId: tenant.integrationId, name: 'note.txt', size: 5 }
  const reserved: Answer | undefined = await tenant.tryCall('POST', '/create_agency_upload', asked)
  if (reserved?.status !== 200) return
  const { uploadUrl, path } = reserved.body
  const signal = AbortSignal.timeout(30_000)
  await fetch(uploadUrl, { method: 'PUT', body: 'Hello', signal }).catch(() => undefined)
  const files = `/v1/integrations/${tenant.integrationId}/files`
  await tenant.tryCall('GET', files)
  await tenant.tryCall('DELETE', `${files}?path=${encodeURIComponent(path)}`)
}
