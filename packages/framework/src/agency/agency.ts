import { ConfigError, type Message } from '@bureau/protocol'
import { z } from 'zod'
import { adoptHandoff } from './agents-sdk/adopt-handoff.ts'
import type { AgencyHandoff } from './handoff.ts'
import type { AnyAgent, AnyHandoff } from './agent-options.ts'
import { AnyFunction, Milliseconds, type OptionChecks, readOptions } from '../options.ts'
import { COPY, otherCopy, THIS_COPY } from './copies.ts'
import { agencyVersion } from './agency-version.ts'
import { Agent } from './agent.ts'
import type { AnswersOf } from './answers.ts'
import { AFlow, type Flow, type FlowOption, readFlows } from './flow.ts'
import type { MessageTool } from './message-tool.ts'
import { Handoff } from './handoff.ts'
import { requireUsableToolNames } from './tool-names.ts'

/** What of a long chat is not sent to a model any more, and is to be summed up. */
export type LeftOutHistory = {
  /** What was said before it, summed up earlier; null: nothing was. */
  readonly summary: string | null
  /** What was said since, oldest first: whole turns. */
  readonly messages: readonly Message[]
  /** Asks the model of the addressed agent. Its tokens are part of the run's usage. */
  readonly ask: (instructions: string, text: string) => Promise<string>
  /** Aborts when the run is cancelled, and after a minute. */
  readonly signal: AbortSignal
}

/** `Entry`, `Member` and `Path` are what the compiler finds out: which agents there are. */
export type AgencyOptions<
  Entry extends Agent = Agent,
  Member extends Agent = Agent,
  Path extends FlowOption = FlowOption,
> = {
  /** Shown in metadata. */
  readonly name?: string
  /** The agent, or agents, that may receive a user's message; the first one does unless the request names another. */
  readonly entryPoint: Entry | readonly Entry[]
  /** Agents that no flow or handoff names. */
  readonly agents?: readonly Member[]
  readonly flows?: readonly Path[]
  /** Put before every agent's own instructions. */
  readonly sharedInstructions?: string
  /** Context that tools can read in every run; a request's `user_context` wins key by key. */
  readonly userContext?: Readonly<Record<string, unknown>>
  /** Turns of one agent's conversation before the run fails. Default 50. */
  readonly maxTurns?: number
  /** Longest time one run may take, in milliseconds. Default 1_800_000 (30 minutes). */
  readonly runTimeoutMs?: number
  /**
   * Sums up what leaves the history of a long chat of the hosted platform: true asks the model of the addressed agent; a function
   * returns the new summary of all that was said before. If it fails, the run goes on without. Default: nothing is summed up.
   */
  readonly summarizeHistory?: true | ((leftOut: LeftOutHistory) => string | Promise<string>)
}

const AnAgent = z.custom<Agent>((value) => value instanceof Agent, {
  error: ({ input }) => otherCopy(input) ?? 'must be an Agent: new Agent({ … })',
})

const AgencyChecks = z.strictObject({
  name: z.string().optional(),
  entryPoint: z.union([AnAgent, z.array(AnAgent).min(1, 'name at least one agent.')], {
    error: ({ input }) => otherCopy([input].flat()[0]) ?? 'must be an Agent, or a list of them',
  }),
  agents: z.array(AnAgent).optional(),
  flows: z.array(AFlow).optional(),
  sharedInstructions: z.string().optional(),
  userContext: z.record(z.string(), z.unknown()).optional(),
  maxTurns: z.int().positive().optional(),
  runTimeoutMs: Milliseconds.optional(),
  summarizeHistory: z.union([z.literal(true), AnyFunction], { error: 'must be true or a function' }).optional(),
} satisfies OptionChecks<AgencyOptions>)

const UNNAMED = 'Unnamed Agency'

/** What people and models are shown of an agency: its own name, or without one that under which it is served. */
export const titleOf = ({ name }: Pick<Agency, 'name'>, served: string): string => (name === UNNAMED ? served : name)

/**
 * A group of agents with an entry point. A definition only: whatever differs between requests belongs to the run, so one
 * agency serves any number of runs at once.
 */
export class Agency<Entry extends Agent = Agent, Member extends Agent = never, Path extends FlowOption = never> {
  /** For the compiler alone: what its agents answer with, by name. */
  declare readonly '~answers'?: AnswersOf<Entry | Member | Path[0 | 1]>
  readonly name: string
  readonly agents: ReadonlyMap<string, Agent>
  readonly entryPoints: readonly Agent[]
  readonly flows: readonly Flow[]
  readonly sharedInstructions: string
  readonly userContext: Readonly<Record<string, unknown>>
  readonly maxTurns: number
  readonly runTimeoutMs: number
  readonly summarizeHistory: AgencyOptions['summarizeHistory']
  readonly #handoffs: ReadonlyMap<string, readonly AgencyHandoff[]>
  #version: string | undefined

  /** @throws ConfigError an option is not valid, or two agents, or two tools of an agent, share a name. */
  constructor(options: AgencyOptions<Entry, Member, Path>) {
    readOptions('Agency', AgencyChecks, options)
    this.name = options.name ?? UNNAMED
    this.entryPoints = Object.freeze([options.entryPoint].flat())
    this.flows = Object.freeze(readFlows(options.flows ?? []))
    this.agents = collectAgents([
      ...this.entryPoints,
      ...(options.agents ?? []),
      ...this.flows.flatMap((flow) => [flow.sender, flow.recipient]),
    ])
    this.sharedInstructions = options.sharedInstructions ?? ''
    this.userContext = Object.freeze({ ...options.userContext })
    this.maxTurns = options.maxTurns ?? 50
    this.runTimeoutMs = options.runTimeoutMs ?? 1_800_000
    this.summarizeHistory = options.summarizeHistory
    this.#handoffs = new Map([...this.agents.values()].map((agent) => [agent.name, handoffsOf(agent, this.flows)]))
    for (const agent of this.agents.values()) {
      const added = { messageTools: this.messageToolsOf(agent.name), handoffs: this.handoffsFrom(agent.name) }
      requireUsableToolNames(agent, added)
    }
    Object.freeze(this)
  }

  get [COPY](): string {
    return THIS_COPY
  }

  /**
   * A hash of the definition, recorded with each run: the same after a restart, another one when something is changed that
   * the behaviour depends on. Of functions it counts their source text, not what they call.
   */
  get version(): string {
    return (this.#version ??= agencyVersion(this))
  }

  get entryPoint(): Agent {
    return this.entryPoints[0]!
  }

  /** The handoffs an agent may make: its own and those of the flows. */
  handoffsFrom(agent: string): readonly AgencyHandoff[] {
    return this.#handoffs.get(agent) ?? []
  }

  /** The agents that an agent may message, with one of its tools or with any, in the order of the flows. */
  recipientsOf(agent: string, tool?: MessageTool): readonly Agent[] {
    const flows = this.#messagesFrom(agent).filter((flow) => tool === undefined || flow.tool === tool)
    return [...new Set(flows.map(({ recipient }) => recipient))]
  }

  /** The tools that an agent sends its messages with, in the order of the flows. */
  messageToolsOf(agent: string): readonly MessageTool[] {
    return [...new Set(this.#messagesFrom(agent).map(({ tool }) => tool))]
  }

  #messagesFrom(agent: string): (Flow & { readonly kind: 'message' })[] {
    return this.flows.filter((flow) => flow.kind === 'message').filter(({ sender }) => sender.name === agent)
  }
}

/** All agents by name, those that only a handoff leads to included. */
function collectAgents(roots: readonly Agent[]): ReadonlyMap<string, Agent> {
  const agents = new Map<string, Agent>()
  const known = new Set<Agent>()
  const problems = new Set<string>()
  const visit = (agent: Agent): void => {
    if (known.has(agent)) return
    known.add(agent)
    if (!AGENT_NAME.test(agent.name)) problems.add(`agents: ${JSON.stringify(agent.name)} is not fit for a name.`)
    else if (agents.has(agent.name)) problems.add(`agents: two agents are named "${agent.name}".`)
    agents.set(agent.name, agent)
    for (const target of agent.handoffs) visit(toHandoff(target).agent)
  }
  roots.forEach(visit)
  if (problems.size > 0) throw new ConfigError([...problems].join('\n'))
  return agents
}

/** Names are part of events, ids and log lines: one line, which does not begin or end with a space. */
const AGENT_NAME = /^(?=\S)[^\p{Cc}\p{Zl}\p{Zp}]{1,128}(?<=\S)$/u

function handoffsOf(agent: Agent, flows: readonly Flow[]): readonly AgencyHandoff[] {
  const byFlow = flows
    .filter((flow) => flow.kind === 'handoff' && flow.sender === agent)
    .map((flow) => new Handoff(flow.recipient))
  return Object.freeze([...agent.handoffs.map(toHandoff), ...byFlow])
}

function toHandoff(target: AnyAgent | AnyHandoff): AgencyHandoff {
  if (target instanceof Handoff) return target
  return 'toolName' in target ? adoptHandoff(target, Agent.from(target.agent)) : new Handoff(Agent.from(target))
}
