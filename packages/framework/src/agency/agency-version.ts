import { hash } from 'node:crypto'
import type { Agent } from './agent.ts'
import type { Flow } from './flow.ts'
import type { InputGuardrail, OutputGuardrail } from './guardrail.ts'
import type { AgencyHandoff } from './handoff.ts'
import { isLanguageModel, languageModelName } from './language-model.ts'
import type { ModelObject } from './model-object.ts'
import { outputFormatOf } from './output-format.ts'
import { type AgentTool, definitionOf } from './tool.ts'
import { functionSchema } from './tool-schema.ts'
import type { ToolServer } from './tool-server.ts'

/** The parts of an agency that its behaviour depends on. */
type Definition = {
  readonly agents: ReadonlyMap<string, Agent>
  readonly entryPoints: readonly Agent[]
  readonly flows: readonly Flow[]
  readonly sharedInstructions: string
  readonly maxTurns: number
  readonly runTimeoutMs: number
  readonly summarizeHistory: unknown
  handoffsFrom(agent: string): readonly AgencyHandoff[]
}

/**
 * A hash of what is written in the definition of an agency: 16 hexadecimal digits. Of functions it counts their source
 * text, not what they call; credentials, names for people and the agency's context are left out.
 */
export function agencyVersion(agency: Definition): string {
  const { agents, entryPoints, flows, sharedInstructions, maxTurns, runTimeoutMs, summarizeHistory } = agency
  const definition = {
    sharedInstructions,
    maxTurns,
    runTimeoutMs,
    summarizeHistory,
    entryPoints: entryPoints.map(({ name }) => name),
    agents: [...agents.values()].map((agent) => agentDefinition(agent, agency.handoffsFrom(agent.name))),
    flows: flows.map(flowDefinition),
  }
  const text = JSON.stringify(definition, (_name, value: unknown) =>
    typeof value === 'function' || typeof value === 'bigint' ? String(value) : value,
  )
  return hash('sha256', text, 'hex').slice(0, 16)
}

function agentDefinition(agent: Agent, handoffs: readonly AgencyHandoff[]): object {
  const { conversationStarters: _starters, quickReplies: _replies, protectedServers, ...written } = agent
  return {
    ...written,
    model: modelDefinition(agent.model),
    tools: agent.tools.map(toolDefinition),
    mcpServers: agent.mcpServers.map(serverDefinition),
    protectedServers: [...protectedServers.values()].map(({ server: { name, url, options } }) => {
      const { scopes, toolFilter, requireApproval, trusted } = options
      return { name, url, scopes, toolFilter, requireApproval, trusted }
    }),
    inputGuardrails: agent.inputGuardrails.map(guardrailDefinition),
    outputGuardrails: agent.outputGuardrails.map(guardrailDefinition),
    outputType: outputFormatOf(agent.outputType),
    handoffs: handoffs.map((handoff) => {
      const { toolName, toolDescription, inputJsonSchema, inputFilter } = handoff
      return { agent: handoff.agent.name, toolName, toolDescription, inputJsonSchema, inputFilter }
    }),
  }
}

// oxlint-disable-next-line unbound-method -- its text is read, it is not called
function guardrailDefinition({ name, execute, ...rest }: InputGuardrail | OutputGuardrail): object {
  const runsInParallel = 'runInParallel' in rest && rest.runInParallel
  return { name, runsInParallel, execute }
}

function modelDefinition(model: string | ModelObject): string {
  if (typeof model === 'string') return model
  return isLanguageModel(model) ? languageModelName(model) : model.name
}

function toolDefinition(tool: AgentTool): object {
  if (tool.type === 'hosted_tool') {
    const { headers: _headers, authorization: _authorization, ...data } = tool.providerData ?? {}
    return { name: tool.name, data }
  }
  const { name, description, parameters, strict, timeoutMs, repeatable } = tool
  const { approval, oneAtATime, source } = definitionOf(tool) ?? {}
  return { name, description, parameters, strict, timeoutMs, repeatable, approval, oneAtATime, source }
}

function serverDefinition({ name, toolFilter, requireApproval, trusted, useStructuredContent }: ToolServer): object {
  return { name, toolFilter, requireApproval, trusted, useStructuredContent }
}

function flowDefinition(flow: Flow): object {
  const { sender, recipient, kind } = flow
  const tool = flow.kind === 'message' && {
    name: flow.tool.name,
    description: flow.tool.description,
    parameters: functionSchema(flow.tool.parameters).parameters,
  }
  return { sender: sender.name, recipient: recipient.name, kind, tool }
}
