import {
  type GuardrailFunctionOutput,
  type InputGuardrail,
  type ModelRequest,
  type ModelResponse,
  type RunContext,
  Usage,
} from '#agents-core'
import type { AgencyHandoff } from '../agency/agency.ts'
import type { Agent } from '../agency/agent.ts'
import { boundModel } from './bound-model.ts'
import { ConversationAgent, conversationOf } from '../conversation-agent.ts'
import type { Conversation } from './conversation.ts'
import { NOTHING_SAID } from './read-response.ts'
import { authenticateTool } from '../mcp/authenticate-tool.ts'
import type { Run } from '../run/run.ts'
import type { AgencyContext } from '../agency/run-context.ts'
import { sendMessageTools } from './send-message.ts'
import { canBeKept, learnFormat } from '../simple-turn.ts'
import { tracedModel } from '../traced-model.ts'

/** A request of the SDK that is made without it. */
export type KeptRequest = { readonly agent: ConversationAgent; readonly request: ModelRequest }

/** Ends a run of the SDK. */
const ASKED_LATER: ModelResponse = { usage: new Usage(), output: [NOTHING_SAID] }

/** The agents of one conversation, made when they are first reached. */
export class ConversationAgents {
  readonly #conversation: Conversation
  readonly #made = new Map<string, ConversationAgent>()
  #kept: KeptRequest | undefined

  constructor(conversation: Conversation) {
    this.#conversation = conversation
  }

  get(name: string): ConversationAgent {
    const made = this.#made.get(name) ?? this.#make(this.#conversation.run.agency.agents.get(name)!)
    this.#made.set(name, made)
    return made
  }

  /** The request with which a run of the SDK has ended, if it has ended with one. */
  takeKept(): KeptRequest | undefined {
    const kept = this.#kept
    this.#kept = undefined
    return kept
  }

  #keep(agent: ConversationAgent, request: ModelRequest): ModelResponse | undefined {
    learnFormat(agent, request)
    if (this.#conversation.run.agency.looksBack || !canBeKept(agent, request)) return undefined
    this.#kept = { agent, request }
    return ASKED_LATER
  }

  #make(agent: Agent): ConversationAgent {
    const { agency } = this.#conversation.run
    const bound = boundModel(this.#conversation, agent)
    const added = [...sendMessageTools(agency, agent), authenticateTool(agent, runOf)]
    const made: ConversationAgent = new ConversationAgent({
      name: agent.name,
      handoffDescription: agent.handoffDescription,
      handoffOutputTypeWarningEnabled: false,
      instructions: (runContext) => composeInstructions(agent, runContext),
      bound: { ...bound, model: tracedModel(this.#conversation, agent, bound.model) },
      intercept: (asking, request) => this.#keep(asking, request),
      modelSettings: agent.modelSettings,
      tools: [...agent.tools, ...added.filter((tool) => tool !== undefined)],
      mcpServers: [...agent.mcpServers],
      mcpConfig: agent.mcpConfig,
      inputGuardrails: agent.inputGuardrails.map((guardrail) => guardInput(guardrail, () => made.isPrepared)),
      outputGuardrails: agent.outputGuardrails,
      outputType: agent.outputType,
      toolUseBehavior: agent.toolUseBehavior,
      resetToolChoice: agent.resetToolChoice,
      handoffs: agency.handoffsFrom(agent.name).map((handoff) =>
        handoff.clone({
          onInvokeHandoff: async (runContext, args) => this.get((await handoff.onInvokeHandoff(runContext, args)).name),
          ...(handoff.inputFilter && { inputFilter: filterInput(handoff.inputFilter) }),
        }),
      ),
      ...(agent.prompt !== undefined && { prompt: agent.prompt }),
    })
    return made
  }
}

/**
 * A guardrail sees the items for which the SDK has one, once in a conversation. A refused message must not cost a model
 * request, so guardrails run before it unless they ask otherwise.
 */
function guardInput(guardrail: InputGuardrail, hasPassed: () => boolean): InputGuardrail {
  return {
    ...guardrail,
    runInParallel: guardrail.runInParallel ?? false,
    execute: async (args) =>
      hasPassed()
        ? PASSED
        : guardrail.execute({ ...args, input: conversationOf(args.context).allSdkItems(args.input) }),
  }
}

const PASSED: GuardrailFunctionOutput = { tripwireTriggered: false, outputInfo: null }

type HandoffFilter = NonNullable<AgencyHandoff['inputFilter']>

/** A handoff's filter sees the items for which the SDK has one. */
function filterInput(filter: HandoffFilter): HandoffFilter {
  return (data) => {
    const conversation = conversationOf(data.runContext!)
    return filter({ ...data, inputHistory: conversation.allSdkItems(data.inputHistory) })
  }
}

async function composeInstructions(agent: Agent, runContext: RunContext<AgencyContext>): Promise<string> {
  const conversation = conversationOf(runContext)
  const { agency, input } = conversation.run
  const { instructions } = agent
  const own = typeof instructions === 'function' ? await instructions(runContext, agent) : instructions
  const composed = [agency.sharedInstructions, own].filter((text) => text !== '').join('\n\n')
  const added = conversation.additionalInstructionsFor(agent.name)
  const parts = [composed, added].filter((text) => text !== undefined && text !== '')
  const withAdded = parts.join(agency.sharedInstructions === '' ? '\n\n' : '\n\n---\n\n')
  const hint = conversation.callerAgent === null ? input.attachmentHint : undefined
  return hint === undefined ? withAdded : `${withAdded}\n\n${hint}`
}

function runOf(runContext: RunContext<AgencyContext>): Run {
  return conversationOf(runContext).run
}
