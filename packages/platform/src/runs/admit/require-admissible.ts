import { ServiceError } from '@bureau/protocol'
import { type ServedAgency, unknownEntryAgent } from '../../agencies.ts'
import { type ChatUse, readChatUse } from '../../chats/attachments.repo.ts'
import type { ChatRow } from '../../chats/chats.repo.ts'
import { openChat } from '../../chats/open-chat.ts'
import { planAttachmentRefresh, type PlannedRefresh } from '../../chats/plan-attachment-refresh.ts'
import type { Tx } from '../../db/operation.ts'
import { together } from '../../db/together.ts'
import type { IntegrationRow } from '../../integrations/integrations.repo.ts'
import { findRun } from '../../run-records/runs.repo.ts'
import type { ReplicaRow } from '../recover/replicas.repo.ts'
import { admitConsumer, type Asked, type HeldAllowance, requireAttribution } from './admit-consumer.ts'
import type { CompletionRequest } from './completion-request.ts'

export type AdmitRun = {
  readonly ownerId: string
  /** The process that will execute the run. */
  readonly bootId: string
  /** What the API key is restricted to; null: nothing. */
  readonly integrationIds: readonly string[] | null
  readonly request: CompletionRequest
  readonly fingerprint: Uint8Array
  readonly dataKey: Uint8Array
  /** What this deployment serves, by the ids of the agencies. */
  readonly agencies: Readonly<Record<string, ServedAgency>>
  /** The sandbox files that were looked for in the mount and not found. */
  readonly missingSandboxFiles: readonly string[]
  /** A run that waits in the chat and is to end for this one, when that is checked. Of an admission it has ended. */
  readonly waitingRunId?: string | undefined
}

/** What a run is reserved for, and who will execute it. */
export type Reached = Asked & {
  /** Of the process that is to execute the run; null: nobody knows it. */
  readonly replicaState: ReplicaRow['state'] | null
  /** Whether the usageRequestId has a run. */
  readonly isKnown: boolean
}

type ChosenAgent = { readonly name: string; readonly agencyVersion: string }

/** What a run is to be reserved with. Chat and member are locked. */
export type Admissible = {
  readonly agent: ChosenAgent
  readonly allowance: HeldAllowance | null
  /** Null: the chat is created with the run. */
  readonly chat: ChatRow | null
  readonly refreshes: readonly PlannedRefresh[]
}

/** Everything that may refuse a run but that another one gets in first. @throws ServiceError see `admitRun` */
export async function requireAdmissible(tx: Tx, args: AdmitRun, reached: Reached): Promise<Admissible> {
  const { integration, replicaState } = reached
  const { request } = args
  const { settings } = integration
  if (integration.deletedAt) throw new ServiceError('integration_not_found')
  if (settings.disabled) throw new ServiceError('integration_disabled')
  requireAttribution(request, integration)
  const agent = chooseAgent(args, integration)
  const allowance = await admitConsumer(tx, request, reached)
  const { chat, activeRunId, attachments } = await namedChat(tx, args, settings)
  if (activeRunId !== null && activeRunId !== args.waitingRunId) throw await occupied(tx, args.ownerId, activeRunId)
  const refreshes = planAttachmentRefresh(attachments, request.attachmentUrlRefreshes, Date.now())
  if (args.missingSandboxFiles.length > 0) throw missingFiles(args.missingSandboxFiles)
  if (replicaState !== 'live') throw new ServiceError('server_draining', { headers: { 'Retry-After': '1' } })
  return { agent, allowance, chat, refreshes }
}

/** The chat that the request names, locked, and its use; null when the run is to have one of its own. */
async function namedChat(
  tx: Tx,
  { ownerId, request }: AdmitRun,
  { chatBinding }: IntegrationRow['settings'],
): Promise<{ readonly chat: ChatRow | null } & ChatUse> {
  const { apiIntegrationId: integrationId, consumerId, chatId, aliasChatId } = request
  const boundToConsumer = chatBinding === 'consumer'
  const opening = openChat(tx, { ownerId, integrationId, consumerId, chatId, aliasChatId, boundToConsumer })
  if (chatId !== null) {
    // The second is read when the first is locked, as that of members is.
    const [chat, use] = await together(opening, readChatUse(tx, { ownerId, chatId }))
    return { chat, ...use }
  }
  const chat = await opening
  if (!chat || chat.nextSeq === 1) return { chat, activeRunId: null, attachments: [] } // nothing was said in it
  return { chat, ...(await readChatUse(tx, { ownerId, chatId: chat.id })) }
}

/** @throws ServiceError `unknown_agency`, `invalid_agent` */
function chooseAgent({ request, agencies }: AdmitRun, integration: IntegrationRow): ChosenAgent {
  const name = request.agent ?? integration.defaultAgent
  const agency = agencies[integration.agencyId]
  if (!agency) throw new ServiceError('unknown_agency')
  if (!agency.entryAgents.includes(name)) throw unknownEntryAgent('agent', name, agency.entryAgents)
  return { name, agencyVersion: agency.version }
}

function missingFiles(paths: readonly string[]): ServiceError {
  return new ServiceError('sandbox_file_not_found', {
    message: `There is no such file in the agency mount: ${paths.join(', ')}`,
  })
}

/** The chat is another run's, which works or waits. */
export async function occupied(tx: Tx, ownerId: string, runId: string | undefined): Promise<ServiceError> {
  const run = runId === undefined ? undefined : await findRun(tx, { ownerId, runId })
  const headers = { 'X-Agent-Active-Run-Id': runId ?? '' }
  if (run?.state === 'waiting') return new ServiceError('run_waiting', { headers })
  return new ServiceError('run_active', { headers: { 'Retry-After': '2', ...(runId && headers) } })
}
