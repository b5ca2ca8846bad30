import {
  type Agency,
  type AgencyContext,
  type AgencyHandoff,
  type Agent,
  type AgentTool,
  limitedResult,
  type RunContext,
  type RunEnvironment,
  serverTools,
  type ToolServer,
} from '@bureau/framework'
import type { RealtimeAgent, RealtimeOutputGuardrail } from '@openai/agents-realtime'
import type { RealtimeSdk } from './load-realtime-sdk.ts'

export type VoiceAgent = RealtimeAgent<AgencyContext>

/** An agency that realtime sessions cannot serve. */
class NoRealtimeFlow extends Error {
  override readonly name = 'NoRealtimeFlow'
}

type AgentBinding = {
  readonly sdk: RealtimeSdk
  readonly environment: RunEnvironment
  /** Aborts when the session ends. */
  readonly signal: AbortSignal
}

/**
 * The entry agent of an agency as a realtime agent; those that it can hand over to are made when they are reached.
 *
 * @throws NoRealtimeFlow the agents can only message each other: nobody answers messages in a realtime session.
 */
export function realtimeEntryAgent(agency: Agency, binding: AgentBinding): VoiceAgent {
  const handoffs = [...agency.agents.keys()].some((name) => agency.handoffsFrom(name).length > 0)
  if (!handoffs && agency.flows.length > 0) {
    throw new NoRealtimeFlow(`The agency "${agency.name}" has message flows only; realtime sessions need handoffs.`)
  }
  const VoiceAgent = voiceAgentClass(binding, async (agent, runContext) => {
    const enabled: object[] = []
    for (const handoff of agency.handoffsFrom(agent)) {
      if (await handoff.isEnabled({ runContext, agent: { name: agent } })) enabled.push(voiceHandoff(handoff, get))
    }
    return enabled as Handoffs
  })
  const made = new Map<string, VoiceAgent>()
  const get = (name: string): VoiceAgent => {
    const known = made.get(name)
    if (known) return known
    const agent = new VoiceAgent(configuration(agency, agency.agents.get(name)!))
    made.set(name, agent)
    return agent
  }
  return get(agency.entryPoint.name)
}

type Handoffs = Awaited<ReturnType<VoiceAgent['getEnabledHandoffs']>>

/** Connects an agent's tool servers when the agent takes over, as in a run, and offers the agency's own handoffs. */
function voiceAgentClass(
  { sdk, environment, signal }: AgentBinding,
  handoffsFrom: (agent: string, runContext: RunContext) => Promise<Handoffs>,
): new (options: VoiceAgentOptions) => VoiceAgent {
  return class extends sdk.RealtimeAgent<AgencyContext> {
    override async getMcpTools(
      ...[runContext]: Parameters<VoiceAgent['getMcpTools']>
    ): ReturnType<VoiceAgent['getMcpTools']> {
      const servers = this.mcpServers as unknown as readonly ToolServer[]
      const { mcp } = environment
      await mcp.connect(servers, signal)
      return voiceTools(await serverTools({ agent: this, runContext, mcp, servers })) as unknown as Tools
    }

    override getEnabledHandoffs(runContext: Parameters<VoiceAgent['getEnabledHandoffs']>[0]): Promise<Handoffs> {
      return handoffsFrom(this.name, runContext)
    }
  }
}

type Tools = Awaited<ReturnType<VoiceAgent['getMcpTools']>>

type VoiceAgentOptions = ConstructorParameters<typeof RealtimeAgent<AgencyContext>>[0]

/** Tools by the members that a session reads. */
function voiceTools(tools: readonly AgentTool[]): object[] {
  return tools.map((tool) => {
    if (tool.type !== 'function') return tool
    const invoke: typeof tool.invoke = async (...call) => limitedResult(await tool.invoke(...call))
    return { isEnabled: async () => true, needsApproval: async () => false, ...tool, invoke }
  })
}

/** A handoff by the members that a session reads. */
function voiceHandoff(handoff: AgencyHandoff, get: (name: string) => VoiceAgent): object {
  const { toolName, toolDescription, inputJsonSchema, strictJsonSchema, agent } = handoff
  return {
    toolName,
    toolDescription,
    inputJsonSchema,
    strictJsonSchema,
    agentName: agent.name,
    agent: get(agent.name),
    onInvokeHandoff: async (runContext: RunContext, argumentsText: string) => {
      await handoff.invoke(runContext, argumentsText)
      return get(agent.name)
    },
    isEnabled: async () => true,
    getHandoffAsFunctionTool: () => ({
      type: 'function',
      name: toolName,
      description: toolDescription,
      parameters: inputJsonSchema,
      strict: strictJsonSchema,
    }),
  }
}

function configuration(agency: Agency, agent: Agent): VoiceAgentOptions {
  const instructions: VoiceAgentOptions['instructions'] = async (context) => {
    const own = agent.instructions
    const text = typeof own === 'function' ? await own(context, agent) : own
    return [agency.sharedInstructions, text].filter((part) => part !== '').join('\n\n')
  }
  return {
    name: agent.name,
    handoffDescription: agent.handoffDescription,
    instructions,
    // The SDK takes tools and servers by these members; its types ask for classes of its own.
    tools: voiceTools(agent.tools) as never,
    mcpServers: [...agent.mcpServers] as never,
    mcpConfig: agent.mcpConfig as never,
    ...(agent.prompt !== undefined && { prompt: agent.prompt as NonNullable<VoiceAgentOptions['prompt']> }),
  }
}

/** Every agent's output guardrails, each asked about its own agent's words only. */
export function realtimeGuardrails(agency: Agency): RealtimeOutputGuardrail[] {
  return [...agency.agents.values()].flatMap((agent) =>
    agent.outputGuardrails.map((guardrail) => ({
      name: guardrail.name,
      execute: async (args): ReturnType<RealtimeOutputGuardrail['execute']> =>
        args.agent.name === agent.name
          ? { outputInfo: null, ...(await guardrail.execute(args as never)) }
          : { tripwireTriggered: false, outputInfo: null },
    })),
  )
}

/** What of an agency has no effect in realtime sessions, in sentences for the log. */
export function realtimeLimits(agency: Agency): string[] {
  const limits: string[] = []
  for (const agent of agency.agents.values()) {
    if (agent.inputGuardrails.length > 0) limits.push(`input guardrails of "${agent.name}" are not applied`)
    if (agent.outputType !== 'text')
      limits.push(`"${agent.name}" speaks: its outputType is not used, and its output guardrails get text`)
    if (agent.protectedServers.size > 0) limits.push(`tool servers of "${agent.name}" that need a sign-in are not used`)
    if (agency.recipientsOf(agent.name).length > 0) limits.push(`"${agent.name}" cannot message other agents`)
    for (const tool of agent.tools) {
      const usable = tool.type === 'function' || (tool.type === 'hosted_tool' && tool.name === 'hosted_mcp')
      if (!usable) limits.push(`"${agent.name}" cannot use its tool "${tool.name}"`)
    }
  }
  return limits
}
