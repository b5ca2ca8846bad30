import type { Agent } from '../agency/agent.ts'
import { type ResolvedModel, resolveModel } from '../models/resolve-model.ts'
import type { StoredFile } from '../run/run-input.ts'
import type { Conversation } from './conversation.ts'

/** An agent's model in one conversation, and what it can do. */
export type BoundModel = ResolvedModel & {
  /** The name that the request asks for; the answer may come from a model with another one. */
  readonly requested: string
  /** Files that its code interpreter gets. */
  readonly codeFiles: readonly StoredFile[]
}

const bound = new WeakMap<Conversation, Map<string, BoundModel>>()

/** The agent's model as this run has it, chosen once in a conversation. */
export function boundModel(conversation: Conversation, agent: Agent): BoundModel {
  const models = bound.get(conversation) ?? new Map<string, BoundModel>()
  bound.set(conversation, models)
  const model = models.get(agent.name) ?? bind(conversation, agent)
  models.set(agent.name, model)
  return model
}

function bind(conversation: Conversation, agent: Agent): BoundModel {
  const { input, environment } = conversation.run
  const resolved = resolveModel(agent, input.clientConfig ?? {}, environment.models)
  const wanted = input.clientConfig?.model
  const own = agent.model || environment.models.defaultModel
  const requested = wanted ?? (typeof own === 'string' ? own : resolved.name)
  return { ...resolved, requested, codeFiles: codeFilesFor(conversation, resolved) }
}

/** Files belong to the user's conversation, and to the service that has them. */
function codeFilesFor({ run, callerAgent }: Conversation, { files }: ResolvedModel): readonly StoredFile[] {
  const { codeFiles } = run.input
  const at = codeFiles?.service.endpoint
  const isThere = at?.baseUrl === files.endpoint?.baseUrl && at?.apiKey === files.endpoint?.apiKey
  return codeFiles && callerAgent === null && files.runsCode && isThere ? codeFiles.files : []
}
