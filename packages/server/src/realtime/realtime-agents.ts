import { type Agency, type AgencyContext, type Agent, type RunEnvironment, serverTools } from '@bureau/framework'
import type { RealtimeAgent, RealtimeOutputGuardrail } from '@openai/agents-realtime'
import type { RealtimeSdk } from './load-realtime-sdk.ts'

export type VoiceAgent = RealtimeAgent<AgencyContext>

/** An agency that realtime sessions cannot serve. */
export class NoRealtimeFlow extends Error {
  override readonly name = 'NoRealtimeFlow'
}

export type AgentBinding = {
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
  const VoiceAgent = voiceAgentClass(binding)
  const made = new Map<string, VoiceAgent>()
  const get = (name: string): VoiceAgent => {
    const known = made.get(name)
    if (known) return known
    const agent = new VoiceAgent(configuration(agency, agency.agents.get(name)!, get))
    made.set(name, agent)
    return agent
  }
  return get(agency.entryPoint.name)
}

/** Connects an agent's tool servers when the agent takes over, as in a run. */
function voiceAgentClass({ sdk, environment, signal }: AgentBinding): new (options: VoiceAgentOptions) => VoiceAgent {
  return class extends sdk.RealtimeAgent<AgencyContext> {
    override async getMcpTools(
      ...[runContext]: Parameters<VoiceAgent['getMcpTools']>
    ): ReturnType<VoiceAgent['getMcpTools']> {
      await environment.mcp.connect(this.mcpServers, signal)
      return serverTools({ agent: this, runContext, servers: this.mcpServers })
    }
  }
}

type VoiceAgentOptions = ConstructorParameters<typeof RealtimeAgent<AgencyContext>>[0]

function configuration(agency: Agency, agent: Agent, get: (name: string) => VoiceAgent): VoiceAgentOptions {
  const handoffs = agency.handoffsFrom(agent.name).map((handoff) =>
    handoff.clone({
      onInvokeHandoff: async (context, args) => get((await handoff.onInvokeHandoff(context, args)).name) as never,
    }),
  )
  const instructions: VoiceAgentOptions['instructions'] = async (context) => {
    const own = agent.instructions
    const text = typeof own === 'function' ? await own(context, agent) : own
    return [agency.sharedInstructions, text].filter((part) => part !== '').join('\n\n')
  }
  return {
    name: agent.name,
    handoffDescription: agent.handoffDescription,
    instructions,
    // The SDK's type of a realtime context has the history too, which our tools and handoffs do not look at.
    tools: agent.tools,
    handoffs: handoffs as never,
    mcpServers: [...agent.mcpServers],
    mcpConfig: agent.mcpConfig,
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
          ? guardrail.execute(args as never)
          : { tripwireTriggered: false, outputInfo: null },
    })),
  )
}

/** What of an agency has no effect in realtime sessions, in sentences for the log. */
export function realtimeLimits(agency: Agency): string[] {
  const limits: string[] = []
  for (const agent of agency.agents.values()) {
    if (agent.inputGuardrails.length > 0) limits.push(`input guardrails of "${agent.name}" are not applied`)
    if (agent.protectedServers.size > 0) limits.push(`tool servers of "${agent.name}" that need a sign-in are not used`)
    if (agency.recipientsOf(agent.name).length > 0) limits.push(`"${agent.name}" cannot message other agents`)
    for (const tool of agent.tools) {
      const usable = tool.type === 'function' || (tool.type === 'hosted_tool' && tool.name === 'hosted_mcp')
      if (!usable) limits.push(`"${agent.name}" cannot use its tool "${tool.name}"`)
    }
  }
  return limits
}
