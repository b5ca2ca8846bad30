import type { LanguageModelV4ProviderTool } from '@ai-sdk/provider'
import { ConfigError, fieldsOf } from '@bureau/protocol'
import type { HostedTool } from './function-tool.ts'
import type { ProviderTool } from './language-model.ts'

export function isProviderTool(tool: object): tool is ProviderTool {
  const { type, id } = tool as Partial<ProviderTool>
  return (type === 'provider' || type === 'provider-defined') && typeof id === 'string'
}

/** The member of a tool on its way to the model that says what it is to a provider's package. */
const MEMBER = 'aiSdkProviderTool'

/**
 * The tool as an agent holds it.
 *
 * @throws ConfigError the provider only describes the tool and leaves it to the application to run it.
 */
export function toHostedTool(tool: ProviderTool): HostedTool {
  const { id, args = {} } = tool
  if ((tool as { isProviderExecuted?: unknown }).isProviderExecuted === false) {
    throw new ConfigError(`The tool ${id} is not run by its provider. Write a function tool that does what it says.`)
  }
  const name = nameOf(id)
  return { type: 'hosted_tool', name, providerData: { [MEMBER]: { id, name, args } } }
}

/** Whether only the models of one vendor have this tool. */
export function isOfProvider(tool: object): boolean {
  return Object.hasOwn(fieldsOf((tool as { providerData?: unknown }).providerData), MEMBER)
}

/** A tool of a request for the model; undefined when it is none of a provider's package. */
export function readProviderTool(tool: Readonly<Record<string, unknown>>): LanguageModelV4ProviderTool | undefined {
  const { id, name, args } = fieldsOf(tool[MEMBER])
  if (typeof id !== 'string') return undefined
  return {
    type: 'provider',
    id: id as LanguageModelV4ProviderTool['id'],
    name: typeof name === 'string' ? name : nameOf(id),
    args: { ...fieldsOf(args) },
  }
}

/** `web_search` for `anthropic.web_search_20250305`. */
function nameOf(id: string): string {
  return id.replace(/^[^.]*\./, '').replace(/_\d{8}$/, '')
}
