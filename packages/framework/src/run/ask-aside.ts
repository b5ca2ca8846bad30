import { type Message, type WireItem, withoutMetadata } from '@bureau/protocol'
import type { Agent } from '../agency/agent.ts'
import type { ResponsesResponse } from '../agency/model-object.ts'
import { estimateTokens } from '../models/estimate-tokens.ts'
import { usageOfResponse } from '../models/pricing.ts'
import { requestHeaders } from '../models/request-body.ts'
import { resolveModel } from '../models/resolve-model.ts'
import { FINAL_EVENTS, type ModelStep } from '../trace/trace-step.ts'
import type { Run } from './run.ts'
import { errorCodeOf } from './run-failure.ts'

type Question = {
  readonly run: Run
  readonly agent: Agent
  readonly signal: AbortSignal
  readonly instructions: string
  readonly text: string
}

/**
 * Asks an agent's model, where this run's requests go, something beside the conversation. Its tokens count as the agent's;
 * its events do not appear in the stream.
 *
 * @throws ModelError, ConfigError
 */
export async function askAside({ run, agent, signal, instructions, text }: Question): Promise<string> {
  const model = resolveModel(agent, run.input.clientConfig ?? {}, run.environment.models)
  const source = { agent: agent.name, callerAgent: null, agent_run_id: '' }
  const input: WireItem[] = [{ role: 'user', content: text }]
  const content = (): unknown => ({ instructions, input })
  const step = run.trace?.openModel(run.trace.root, source, {
    kind: 'model',
    agent: agent.name,
    model: model.name,
    content,
  })
  const observer = new AnswerText(step)
  let answered = false
  const headers = requestHeaders(agent.modelSettings ?? {})
  try {
    const request = { model: model.name, instructions, input, store: false }
    await model.transport(request, { observer, signal, headers })
    answered = true
    step?.answered(() => observer.text)
  } catch (error) {
    step?.failed(errorCodeOf(error))
    throw error
  } finally {
    const counted = { agent: agent.name, model: observer.model ?? model.name }
    if (usageOfResponse(observer.usage).total_tokens > 0) {
      run.count({ ...counted, rawUsage: observer.usage, estimated: false })
    } else if (answered || signal.aborted) {
      const rawUsage = {
        input_tokens: estimateTokens([instructions, text]),
        output_tokens: estimateTokens(observer.text),
      }
      run.count({ ...counted, rawUsage, estimated: true })
    }
  }
  return observer.text
}

/** Takes the text and the usage out of the events of one answer. */
class AnswerText {
  text = ''
  model: string | undefined
  usage: unknown
  readonly #step: ModelStep | undefined

  constructor(step: ModelStep | undefined) {
    this.#step = step
  }

  onEvent(kind: string, json: string): void {
    if (kind.endsWith('.delta')) return
    this.#step?.take({ kind, json })
    if (kind === 'response.output_item.done') {
      this.text += textOf((JSON.parse(json) as { item?: WireItem }).item)
    } else if (FINAL_EVENTS.has(kind)) {
      const { response } = JSON.parse(json) as { response?: ResponsesResponse }
      this.model = response?.model
      this.usage = response?.usage
    }
  }

  onBatchEnd(): undefined {
    return undefined
  }
}

/** What the user and the agents said to each other, without the framework's own notes. */
export function transcriptOf(messages: readonly Message[]): string {
  const lines = messages
    .filter(({ role, callerAgent }) => callerAgent == null && (role === 'user' || role === 'assistant'))
    .map((message) => ({ role: message.role, text: textOf(withoutMetadata(message)).trim() }))
    .filter(({ text }) => text !== '')
    .map(({ role, text }) => `${role}: ${text}`)
  return lines.join('\n')
}

function textOf(item: WireItem | undefined): string {
  const content = item?.['content']
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: unknown } | null) => (typeof part?.text === 'string' ? part.text : '')).join('')
}
