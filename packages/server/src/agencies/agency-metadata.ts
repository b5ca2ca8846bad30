import {
  type Agency,
  type Agent,
  type AgentTool,
  type FlowKind,
  isLanguageModel,
  languageModelName,
} from '@bureau/framework'
import type { AgencyMetadata } from '@bureau/protocol'
import { listedTools, type ToolServers } from './listed-tools.ts'

export type MetadataOptions = {
  readonly exposeInstructions: boolean
  readonly version: string
  readonly defaultModel: string
  /** The directories usable right now; null when local files are switched off. */
  readonly usableLocalDirs: () => Promise<string[] | null>
  readonly toolServers: ToolServers
}

type Tools = readonly AgentTool[]
type ToolLists = ReadonlyMap<Agent, Tools>
type Node = AgencyMetadata['nodes'][number]
type AgentNode = Extract<Node, { type: 'agent' }>
type Position = Node['position']

/** The answer of `get_metadata`: the agency as a graph. */
export async function agencyMetadata(agency: Agency, options: MetadataOptions): Promise<AgencyMetadata> {
  const positions = layOut(agency)
  const tools = await listedTools(agency, options.toolServers)
  const nodes: Node[] = []
  const edges: AgencyMetadata['edges'] = []
  for (const agent of agency.agents.values()) {
    const position = positions.get(agent.name)!
    tools.get(agent)!.forEach((tool, index) => {
      const id = `${agent.name}_tool_${index}`
      nodes.push(toolNode(id, agent, tool, { x: position.x - 60 + 120 * index, y: position.y + 115 }))
      edges.push({ id: `${agent.name}->${id}`, source: agent.name, target: id, type: 'owns' })
    })
    nodes.push({ ...agentNode(agency, agent, tools.get(agent)!, options), position })
  }
  for (const { source, target, kinds } of connections(agency)) {
    const data = { label: `${source} → ${target}`, bidirectional: false, kinds: [...kinds] }
    edges.push({ id: `${source}->${target}`, source, target, type: 'communication', data })
  }
  return {
    nodes,
    edges,
    metadata: summary(agency, tools, options),
    agency_swarm_version: COMPATIBLE_VERSION,
    bureau_version: options.version,
    allowed_local_file_dirs: await options.usableLocalDirs(),
  }
}

/** Clients switch features on by this version of the Python system, with which the routes are compatible. */
const COMPATIBLE_VERSION = '1.11.0'

function summary(agency: Agency, tools: ToolLists, options: MetadataOptions): AgencyMetadata['metadata'] {
  const agents = [...agency.agents.values()]
  const messageTools = agents.reduce((sum, agent) => sum + agency.messageToolsOf(agent.name).length, 0)
  return {
    agencyName: agency.name,
    totalAgents: agents.length,
    totalTools: agents.reduce((sum, agent) => sum + tools.get(agent)!.length, messageTools),
    agents: agents.map((agent) => agent.name),
    entryPoints: agency.entryPoints.map((agent) => agent.name),
    sharedInstructions: options.exposeInstructions ? agency.sharedInstructions : '',
    layoutAlgorithm: 'hierarchical',
  }
}

function agentNode(agency: Agency, agent: Agent, tools: Tools, options: MetadataOptions): Omit<AgentNode, 'position'> {
  const { conversationStarters, quickReplies } = agent
  return {
    id: agent.name,
    type: 'agent',
    data: {
      label: agent.name,
      description: agent.description,
      isEntryPoint: agency.entryPoints.includes(agent),
      toolCount: tools.length,
      tools: tools.map(describeTool),
      instructions: options.exposeInstructions ? instructionsOf(agency, agent) : '',
      model: modelOf(agent, options),
      hasSubagents: connections(agency).some(({ source }) => source === agent.name),
      capabilities: capabilitiesOf(agent),
      ...(conversationStarters.length > 0 && { conversationStarters: [...conversationStarters] }),
      ...(quickReplies.length > 0 && { quickReplies: [...quickReplies] }),
    },
  }
}

function toolNode(id: string, agent: Agent, tool: AgentTool, position: Position): Node {
  const { name, description, type } = describeTool(tool)
  return { id, type: 'tool', data: { label: name, description, type, parentAgent: agent.name }, position }
}

function describeTool(tool: AgentTool): AgentNode['data']['tools'][number] {
  if (tool.type === 'function') {
    return { name: tool.name, type: 'function', description: tool.description, inputSchema: tool.parameters }
  }
  const data = tool.providerData
  const { server_label: label, type } = data ?? {}
  return {
    name: typeof label === 'string' ? label : tool.name,
    type: typeof type === 'string' ? type : tool.type,
    description: '',
  }
}

const HOSTED_CAPABILITIES: Record<string, string> = {
  code_interpreter: 'code_interpreter',
  web_search: 'web_search',
  web_search_preview: 'web_search',
  file_search: 'file_search',
  mcp: 'hosted_mcp',
}

function capabilitiesOf(agent: Agent): string[] {
  const types = agent.tools.map((tool) => describeTool(tool).type)
  const hosted = Object.entries(HOSTED_CAPABILITIES).flatMap(([type, name]) => (types.includes(type) ? [name] : []))
  const ordered = [
    ...(types.includes('function') || agent.mcpServers.length > 0 ? ['tools'] : []),
    ...(agent.modelSettings?.reasoning ? ['reasoning'] : []),
    ...hosted,
  ]
  return [...new Set(ordered)]
}

function modelOf(agent: Agent, options: MetadataOptions): string {
  if (typeof agent.model === 'string') return agent.model || options.defaultModel
  return isLanguageModel(agent.model) ? languageModelName(agent.model) : agent.model.name
}

function instructionsOf(agency: Agency, agent: Agent): string {
  const own = typeof agent.instructions === 'string' ? agent.instructions : ''
  return [agency.sharedInstructions, own].filter((text) => text !== '').join('\n\n---\n\n')
}

type Connection = { readonly source: string; readonly target: string; readonly kinds: Set<FlowKind> }

/** Who may reach whom, by message or handoff, each pair once. */
function connections(agency: Agency): Connection[] {
  const pairs = new Map<string, Connection>()
  const add = (source: string, target: string, kind: FlowKind): void => {
    const key = `${source}\n${target}`
    const pair = pairs.get(key) ?? { source, target, kinds: new Set() }
    pair.kinds.add(kind)
    pairs.set(key, pair)
  }
  for (const { sender, recipient, kind } of agency.flows) add(sender.name, recipient.name, kind)
  for (const name of agency.agents.keys()) {
    for (const { agent } of agency.handoffsFrom(name)) add(name, agent.name, 'handoff')
  }
  return [...pairs.values()]
}

/** Layers by distance from the entry points, centred on a canvas of 800. */
function layOut(agency: Agency): Map<string, Position> {
  const layers = new Map(agency.entryPoints.map((agent) => [agent.name, 0]))
  const queue = [...layers.keys()]
  for (const name of queue) {
    for (const { source, target } of connections(agency)) {
      if (source !== name || layers.has(target)) continue
      layers.set(target, layers.get(name)! + 1)
      queue.push(target)
    }
  }
  for (const name of agency.agents.keys()) if (!layers.has(name)) layers.set(name, 0)
  const positions = new Map<string, Position>()
  for (const layer of new Set(layers.values())) {
    const names = [...layers].flatMap(([name, at]) => (at === layer ? [name] : []))
    names.forEach((name, index) => {
      const x = 400 + 120 * (index - (names.length - 1) / 2)
      positions.set(name, { x, y: 80 + 180 * layer })
    })
  }
  return positions
}
