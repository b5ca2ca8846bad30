import { fieldsOf } from '@bureau/protocol'
import { isOfProvider } from '../agency/provider-tools.ts'
import type { StoredFile } from '../run/run-input.ts'
import { functionTool, type HostedTool } from '../agency/function-tool.ts'
import { type AgentTool } from '../agency/tool.ts'

/**
 * The tools for a model that runs function tools only: tools that the default vendor runs are replaced by tools of the
 * same name that say they are not available, so that the model can tell the user instead of failing.
 */
export function withoutHostedTools(tools: readonly AgentTool[]): AgentTool[] {
  const taken = new Set(tools.flatMap((tool) => (tool.type === 'function' ? [tool.name] : [])))
  return tools.map((tool) => (tool.type === 'function' || isOfProvider(tool) ? tool : standIn(tool, taken)))
}

/** The tools for a model of the default vendor, which has no tools of other vendors. */
export function withoutProviderTools(tools: readonly AgentTool[]): readonly AgentTool[] {
  if (!tools.some(isOfProvider)) return tools
  const taken = new Set(tools.flatMap((tool) => (isOfProvider(tool) ? [] : [tool.name])))
  return tools.map((tool) => (isOfProvider(tool) ? standIn(tool, taken) : tool))
}

function standIn(tool: AgentTool, taken: Set<string>): AgentTool {
  const name = freeName(nameOf(tool), taken)
  taken.add(name)
  const notice = `The tool ${name} is not available for this request: the model in use cannot run it.`
  return functionTool({
    name,
    description: `Not available for this request: the model in use cannot run ${name}.`,
    parameters: { type: 'object', properties: {}, required: [], additionalProperties: false },
    strict: true,
    whenFailed: () => notice,
    execute: async () => notice,
  })
}

/** Tool servers all have one tool name; their labels tell them apart. */
function nameOf(tool: AgentTool): string {
  const { server_label: label } = ('providerData' in tool ? (tool.providerData ?? {}) : {}) as Record<string, unknown>
  const name = typeof label === 'string' ? `${tool.name}_${label}` : tool.name
  return name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 60)
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  let free = name
  for (let count = 2; taken.has(free); count++) free = `${name}_${count}`
  return free
}

/**
 * The tools with a code interpreter that has these files, for one request: the agent's own one with the files added, or
 * one more. A container that the agent names by its id is replaced, because files cannot be added to it in a request.
 */
export function withCodeFiles(tools: readonly AgentTool[], files: readonly StoredFile[]): AgentTool[] {
  const ids = files.map(({ id }) => id)
  const own = tools.find(isCodeInterpreter)
  if (!own) return [...tools, codeInterpreter({ type: 'code_interpreter' }, ids)]
  return tools.map((tool) => (tool === own ? codeInterpreter(own.providerData ?? {}, ids) : tool))
}

function isCodeInterpreter(tool: AgentTool): tool is HostedTool {
  return tool.type === 'hosted_tool' && (tool.providerData ?? {})['type'] === 'code_interpreter'
}

function codeInterpreter(data: Readonly<Record<string, unknown>>, ids: readonly string[]): HostedTool {
  const { container } = data
  const settings = fieldsOf(container)
  const present = Array.isArray(settings['file_ids']) ? settings['file_ids'] : []
  const fileIds = [...new Set([...present, ...ids])]
  const providerData = { ...data, container: { ...settings, type: 'auto', file_ids: fileIds } }
  return { type: 'hosted_tool', name: 'code_interpreter', providerData }
}

/** Tells the model of the files; part of the request only, never of the conversation. */
export function codeFilesHint(files: readonly StoredFile[]): string {
  const names = JSON.stringify(files.map(({ name }) => name))
  return `[Attached files, open to the code interpreter under /mnt/data: ${names}]`
}
