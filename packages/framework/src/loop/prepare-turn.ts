import { outputFormatOf } from '../agency/output-format.ts'
import { callBack } from '../agency/callback.ts'
import type { Agent } from '../agency/agent.ts'
import type { Prompt } from '../agency/agent-options.ts'
import type { AgencyHandoff } from '../agency/handoff.ts'
import type { FunctionTool } from '../agency/function-tool.ts'
import { withCodeFiles, withoutHostedTools, withoutProviderTools } from './hosted-tools.ts'
import { defaultSettingsFor, type ModelSettings } from '../agency/model-settings.ts'
import type { RunContext } from '../agency/run-context.ts'
import type { AgentTool } from '../agency/tool.ts'
import { authenticateTool } from '../sign-ins/authenticate-tool.ts'
import { resumeSignIns } from '../sign-ins/resume-sign-ins.ts'
import { serverTools, toolServerOf } from '../mcp/server-tools.ts'
import type { TurnRequest } from '../models/request-body.ts'
import { RunStopped } from '../run/run-errors.ts'
import type { CallerOptions } from '../run/run-input.ts'
import { type BoundModel, boundModel } from './bound-model.ts'
import { callerFunctions, requireOtherNames } from './caller-functions.ts'
import { Conversation } from './conversation.ts'
import type { ToolFacts } from './item-events.ts'
import { sendMessageTools } from './send-message.ts'

/** What an agent goes into a turn with. */
export type PreparedTurn = Omit<TurnRequest, 'handoffs'> & {
  readonly agent: Agent
  readonly context: RunContext
  readonly model: BoundModel
  readonly handoffs: readonly AgencyHandoff[]
  /** Those of the tools that the caller of the run carries out. */
  readonly callerFunctions: readonly FunctionTool[]
}

/**
 * Asks an agent's author for what its next turn begins with: handoffs, tools, instructions, in this order and once per turn,
 * so that a tool may enable others within the run.
 *
 * @throws RunStopped there must be no further turn. CallbackFailed a function of the author's fails.
 */
export async function prepareTurn(conversation: Conversation, context: RunContext): Promise<PreparedTurn> {
  const agent = conversation.agentInControl
  const model = boundModel(conversation, agent)
  const offered = await offer(conversation, context, model)
  if (conversation.mustStop) throw new RunStopped('cancelled')
  const instructions = await composeInstructions(conversation, context)
  const prompt = await promptOf(conversation, context)
  const settings = settingsOf(conversation, agent, model)
  return {
    agent,
    context,
    model,
    ...offered,
    instructions,
    prompt,
    settings,
    format: outputFormatOf(agent.outputType) ?? optionsOf(conversation)?.format,
  }
}

/** What the caller asks for is about the conversation with the user. */
function optionsOf({ callerAgent, run }: Conversation): CallerOptions | undefined {
  return callerAgent === null ? run.input.callerOptions : undefined
}

/** The caller's choice of a function, while the agent that was addressed is in control. */
function choiceOf(conversation: Conversation): string | undefined {
  return conversation.agent === conversation.state.addressed ? optionsOf(conversation)?.functionChoice : undefined
}

const NOTHING = { handoffs: [], tools: [], callerFunctions: [] }

/** An agent that must call a function of the caller is offered nothing else. */
async function offer(
  conversation: Conversation,
  context: RunContext,
  model: BoundModel,
): Promise<Pick<PreparedTurn, 'handoffs' | 'tools' | 'callerFunctions'>> {
  if (optionsOf(conversation)?.modelOnly) return NOTHING
  const handoffs = await enabledHandoffs(conversation, context)
  const tools = await offeredTools(conversation, context, model)
  const functions = callerFunctions(conversation, optionsOf(conversation))
  if (functions.length === 0) return { handoffs, tools, callerFunctions: functions }
  requireOtherNames(functions, tools, handoffs)
  const isForced = (choiceOf(conversation) ?? 'auto') !== 'auto'
  return {
    handoffs: isForced ? [] : handoffs,
    tools: isForced ? functions : [...tools, ...functions],
    callerFunctions: functions,
  }
}

async function enabledHandoffs(conversation: Conversation, runContext: RunContext): Promise<AgencyHandoff[]> {
  const enabled: AgencyHandoff[] = []
  const agent = conversation.agentInControl
  for (const handoff of conversation.run.agency.handoffsFrom(agent.name)) {
    const callback = `isEnabled of the handoff to "${handoff.agent.name}" of the agent "${agent.name}"`
    if (await callBack(callback, () => handoff.isEnabled({ runContext, agent }))) enabled.push(handoff)
  }
  return enabled
}

/** The tools of servers, the agent's own, those for messages and sign-ins, and those of the run. */
async function offeredTools(
  conversation: Conversation,
  context: RunContext,
  model: BoundModel,
): Promise<readonly AgentTool[]> {
  const { run, agentInControl: agent } = conversation
  const listed = await listServerTools(conversation, context)
  const added = [...sendMessageTools(run.agency, agent), authenticateTool(agent, runOf)]
  const enabled: AgentTool[] = []
  for (const tool of [...agent.tools, ...added]) {
    if (tool === undefined) continue
    if (tool.type !== 'function' || !tool.isEnabled || (await isEnabled(tool, context, agent))) enabled.push(tool)
  }
  const own = [...listed, ...enabled]
  const tools = [...own, ...run.tools.filter(({ name }) => !own.some((tool) => tool.name === name))]
  conversation.describeTools((name) => factsOf(tools, name))
  return forModel(await run.toolServers.authorize(agent.name, tools), model)
}

function isEnabled(tool: FunctionTool, context: RunContext, agent: Agent): Promise<boolean> {
  const callback = `isEnabled of the tool "${tool.name}" of the agent "${agent.name}"`
  return callBack(callback, () => tool.isEnabled!(context, agent))
}

/** The tools of open servers, and of protected ones that the user is signed in to. */
async function listServerTools(conversation: Conversation, runContext: RunContext): Promise<AgentTool[]> {
  const { run, signal, agentInControl: agent } = conversation
  if (agent.mcpServers.length === 0 && agent.protectedServers.size === 0) return []
  await resumeSignIns({ run, agent, runContext })
  const { mcp } = run.environment
  await mcp.connect(agent.mcpServers, signal)
  return serverTools({
    agent,
    runContext,
    mcp,
    servers: [...agent.mcpServers, ...run.toolServers.connectionsOf(agent.name)],
  })
}

function forModel(tools: readonly AgentTool[], { runsHostedTools, codeFiles }: BoundModel): readonly AgentTool[] {
  if (!runsHostedTools) return withoutHostedTools(tools)
  const known = withoutProviderTools(tools)
  return codeFiles.length > 0 ? withCodeFiles(known, codeFiles) : known
}

function factsOf(tools: readonly AgentTool[], name: string): ToolFacts | undefined {
  const tool = tools.findLast((each) => each.type === 'function' && each.name === name)
  if (tool?.type !== 'function') return undefined
  const mcpServer = toolServerOf(tool)
  return { description: tool.description, ...(mcpServer !== undefined && { mcpServer }) }
}

async function promptOf(conversation: Conversation, context: RunContext): Promise<Prompt | undefined> {
  const agent = conversation.agentInControl
  const { prompt } = agent
  if (optionsOf(conversation)?.modelOnly) return undefined
  if (typeof prompt !== 'function') return prompt
  return callBack(`the prompt of the agent "${agent.name}"`, () => prompt(context, agent))
}

async function composeInstructions(conversation: Conversation, context: RunContext): Promise<string> {
  const { agency, input } = conversation.run
  const agent = conversation.agentInControl
  if (optionsOf(conversation)?.modelOnly) return input.additionalInstructions ?? ''
  const own = await ownInstructions(agent, context)
  const composed = [agency.sharedInstructions, own].filter((text) => text !== '').join('\n\n')
  const added = conversation.additionalInstructionsFor(agent.name)
  const parts = [composed, added].filter((text) => text !== undefined && text !== '')
  const withAdded = parts.join(agency.sharedInstructions === '' ? '\n\n' : '\n\n---\n\n')
  const hint = conversation.callerAgent === null ? input.attachmentHint : undefined
  return hint === undefined ? withAdded : `${withAdded}\n\n${hint}`
}

/** @throws CallbackFailed the agent's function throws, or returns no text. */
async function ownInstructions(agent: Agent, context: RunContext): Promise<string> {
  const { name, instructions } = agent
  if (typeof instructions === 'string') return instructions
  return callBack(`the instructions of the agent "${name}"`, async () => {
    const text: unknown = await instructions(context, agent)
    if (typeof text === 'string') return text
    throw new TypeError(`they are ${typeof text === 'object' && text ? 'an object' : String(text)}, not a text`)
  })
}

/** The agent's settings, and in their place what the caller may ask for. */
function settingsOf(conversation: Conversation, agent: Agent, model: BoundModel): ModelSettings {
  const settings = ownSettings(conversation, agent, model)
  const options = optionsOf(conversation)
  if (!options) return settings
  const { parallelCalls, maxOutputTokens } = options
  const choice = choiceOf(conversation)
  return {
    ...settings,
    ...(choice !== undefined && choice !== 'auto' && { toolChoice: choice }),
    ...(parallelCalls !== undefined && { parallelToolCalls: parallelCalls }),
    ...(maxOutputTokens !== undefined && { maxTokens: Math.min(maxOutputTokens, settings.maxTokens ?? Infinity) }),
  }
}

/** An agent that has called something once need not call again, unless it says so. */
function ownSettings(conversation: Conversation, agent: Agent, model: BoundModel): ModelSettings {
  const settings = agent.modelSettings ?? defaultSettingsFor(model.name)
  const isSpent = agent.resetToolChoice && conversation.state.called.includes(agent.name)
  if (!isSpent || settings.toolChoice === undefined || settings.toolChoice === 'none') return settings
  const { toolChoice: _toolChoice, ...others } = settings
  return others
}

function runOf({ context }: { readonly context: unknown }): Conversation['run'] {
  if (!(context instanceof Conversation)) throw new Error('a tool ran outside its conversation')
  return context.run
}
