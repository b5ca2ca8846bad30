import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError, type WireItem } from '@bureau/protocol'
import { storage } from '../agency/agent.ts'
import { codeFilesHint } from './hosted-tools.ts'
import type { ModelRetry } from '../agency/model-settings.ts'
import { causesOf } from '../causes.ts'
import { withoutStoredState } from '../history/history.ts'
import { estimateTokens } from '../models/estimate-tokens.ts'
import { requestBody, requestHeaders } from '../models/request-body.ts'
import { ModelError } from '../models/model-error.ts'
import type { ResponsesRequest } from '../agency/model-object.ts'
import { errorCodeOf } from '../run/run-failure.ts'
import type { StoredFile } from '../run/run-input.ts'
import type { Conversation } from './conversation.ts'
import type { PreparedTurn } from './prepare-turn.ts'
import { ResponseWatcher } from './response-watcher.ts'

/**
 * Asks the model once. Its events go to whoever follows the run while they arrive.
 *
 * @returns The items of the finished response.
 * @throws ModelError, ConfigError, or the reason of the run's signal.
 */
export async function requestModel(conversation: Conversation, turn: PreparedTurn): Promise<readonly WireItem[]> {
  // What was stopped meanwhile must not be asked, nor counted.
  conversation.signal.throwIfAborted()
  const { model, instructions = '' } = turn
  const { source, trace } = conversation
  const step = trace?.modelAsked(source, model.requested, () => ({ instructions, input: conversation.input }))
  try {
    const output = await untilAnswered(conversation, turn)
    step?.answered(() => output)
    return output
  } catch (error) {
    step?.failed(errorCodeOf(error))
    throw error
  }
}

/** Tries again as the agent's settings say; never once something of the answer was shown. */
async function untilAnswered(conversation: Conversation, turn: PreparedTurn): Promise<readonly WireItem[]> {
  const { retry = {} } = turn.settings
  countLost(conversation, turn)
  for (let attempt = 0; ; attempt++) {
    const watcher = new ResponseWatcher(conversation, turn.model.name)
    try {
      const { length } = conversation.items
      watcher.begin(() => [turn.instructions, turn.tools, conversation.items.slice(0, length)])
      const signal = signalOf(conversation, turn)
      await watcher.counted(send(conversation, turn, { observer: watcher, signal }), signal)
      return watcher.result()
    } catch (error) {
      conversation.signal.throwIfAborted()
      const mayPass = error instanceof ModelError && TEMPORARY.has(error.code)
      if (!mayPass || watcher.hasShown || attempt >= (retry.maxRetries ?? 0)) throw error
      await sleep(delayMs(retry, attempt), undefined, { signal: conversation.signal })
    }
  }
}

/** The process before was asking the same, and died: the provider charges for it, and nobody knows how much. */
function countLost(conversation: Conversation, { agent, model, instructions, tools }: PreparedTurn): void {
  if (!conversation.takeLostRequest()) return
  const tokens = estimateTokens([instructions, tools, conversation.items])
  const rawUsage = { input_tokens: tokens, output_tokens: 0 }
  conversation.run.count({ agent: agent.name, model: model.name, rawUsage, estimated: true })
}

const TEMPORARY = new Set<string>(['upstream_unavailable', 'upstream_timeout', 'upstream_rate_limited'])

function delayMs({ backoff = {} }: ModelRetry, attempt: number): number {
  const { initialDelayMs = 1_000, maxDelayMs = 30_000, multiplier = 2 } = backoff
  return Math.min(maxDelayMs, initialDelayMs * multiplier ** attempt)
}

/** Aborts when the run is stopped, or the request takes longer than the agent's settings let it. */
function signalOf({ signal }: Conversation, { settings: { timeoutMs } }: PreparedTurn): AbortSignal {
  return timeoutMs === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
}

type Sending = { readonly observer: ResponseWatcher; readonly signal: AbortSignal }

/** A function of its own, so that nothing of the body is kept while the answer arrives: it repeats the whole conversation. */
function send(conversation: Conversation, turn: PreparedTurn, { observer, signal }: Sending): Promise<void> {
  const { settings, model } = turn
  return model
    .transport(bodyOf(conversation, turn), { observer, signal, headers: requestHeaders(settings) })
    .catch((error: unknown) => {
      conversation.signal.throwIfAborted()
      if (signal.aborted) throw new ModelError('upstream_timeout', { detail: 'modelSettings.timeoutMs', cause: error })
      throw withForbiddenAddress(error)
    })
}

function bodyOf(conversation: Conversation, turn: PreparedTurn): ResponsesRequest {
  const { model, agent, prompt } = turn
  const { clientConfig } = conversation.run.input
  // The model of a prompt template counts, unless the agent or the request names one.
  const isNamed = !prompt || agent.model !== '' || clientConfig?.model != null
  const input = withHint(conversation.input, model.codeFiles)
  const body = requestBody(
    turn,
    isNamed ? model.name : undefined,
    storage(agent).store ? input : withoutStoredState(input),
  )
  const extra = clientConfig?.model_settings_extra_args ?? {}
  const asked = model.adjust(model.runsHostedTools ? body : withFunctionChoice(body), turn.settings, extra)
  return asked['store'] === false ? { ...asked, input: withoutStoredState(asked.input) } : asked
}

/** That a caller's address is forbidden may show only when its name is resolved. */
function withForbiddenAddress(error: unknown): unknown {
  if (error instanceof ConfigError) return error // a file's address, which has its own message
  const isForbidden = causesOf(error).some(({ name, reason }) => name === 'EgressError' && reason === 'blocked')
  if (!isForbidden) return error
  return new ConfigError('client_config.base_url: The address of the URL is not allowed.', { cause: error })
}

/** A hosted tool that must be called is a function here, under the same name. */
function withFunctionChoice(body: ResponsesRequest): ResponsesRequest {
  const choice = body['tool_choice']
  if (typeof choice !== 'object' || choice === null) return body
  const { type } = choice as { type?: unknown }
  const isOffered = body.tools?.some(({ name }) => name === type)
  return isOffered ? { ...body, tool_choice: { type: 'function', name: type } } : body
}

/** Part of the request only: the files are there for this run, so later turns must not read of them. */
function withHint(input: WireItem[], files: readonly StoredFile[]): WireItem[] {
  if (files.length === 0) return input
  const at = input.findLastIndex(({ role }) => role === 'user')
  const item = input[at]
  if (!item) return input
  const { content } = item
  const parts = Array.isArray(content) ? content : content ? [{ type: 'input_text', text: content }] : []
  const hinted = { ...item, content: [...parts, { type: 'input_text', text: codeFilesHint(files) }] }
  return input.with(at, hinted)
}
