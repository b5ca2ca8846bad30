const text = { type: 'string' }
const texts = { type: 'array', items: text }

function object(properties: Readonly<Record<string, object>>, optional: readonly string[] = []): object {
  return { type: 'object', properties, required: Object.keys(properties).filter((name) => !optional.includes(name)) }
}

const POSITION = object({ x: { type: 'number' }, y: { type: 'number' } })

const TOOL = object(
  { name: text, type: text, description: text, inputSchema: { type: 'object', description: 'Of function tools.' } },
  ['inputSchema'],
)

const AGENT_NODE = object({
  id: text,
  type: { const: 'agent' },
  position: POSITION,
  data: object(
    {
      label: text,
      description: text,
      isEntryPoint: { type: 'boolean' },
      toolCount: { type: 'integer' },
      tools: { type: 'array', items: TOOL },
      instructions: { type: 'string', description: 'Empty unless the server exposes them.' },
      model: text,
      hasSubagents: { type: 'boolean' },
      capabilities: texts,
      conversationStarters: texts,
      quickReplies: texts,
    },
    ['conversationStarters', 'quickReplies'],
  ),
})

const TOOL_NODE = object({
  id: text,
  type: { const: 'tool' },
  position: POSITION,
  data: object({ label: text, description: text, type: text, parentAgent: text }),
})

const EDGE = object(
  {
    id: text,
    source: text,
    target: text,
    type: { type: 'string', enum: ['owns', 'communication'] },
    data: object({ label: text, bidirectional: { type: 'boolean' } }),
  },
  ['data'],
)

/** The answer of `get_metadata`: the agency as a graph. */
export const METADATA_SCHEMA = object({
  nodes: { type: 'array', items: { anyOf: [AGENT_NODE, TOOL_NODE] } },
  edges: { type: 'array', items: EDGE },
  metadata: object({
    agencyName: text,
    totalAgents: { type: 'integer' },
    totalTools: { type: 'integer' },
    agents: texts,
    entryPoints: texts,
    sharedInstructions: text,
    layoutAlgorithm: text,
  }),
  agency_swarm_version: text,
  bureau_version: text,
  allowed_local_file_dirs: {
    type: ['array', 'null'],
    items: text,
    description: 'Directories that can be used now; null when local files are off.',
  },
})
