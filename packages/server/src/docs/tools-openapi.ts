import type { ServerTool } from '../options.ts'
import { readTools } from '../tools/read-tools.ts'
import { toolSpec } from '../tools/tool-spec.ts'
import { openApiDocument } from './openapi.ts'

export type ToolsDescription = {
  /** Where the tools are served. */
  readonly url: string
  /** Default `Agent Tools`. */
  readonly title?: string
  readonly description?: string
}

/**
 * The OpenAPI 3.1 description of tools, as JSON text, for platforms that import tools from a description.
 *
 * @throws ConfigError two tools share a name, or a tool runs at the model provider.
 */
export function toolsOpenApi(tools: readonly ServerTool[], about: ToolsDescription): string {
  const { url, title = 'Agent Tools', description } = about
  const info = { title, version: 'v1.0.0', ...(description !== undefined && { description }) }
  return JSON.stringify(openApiDocument(readTools(tools).map(toolSpec), { info, url }), null, 2)
}
