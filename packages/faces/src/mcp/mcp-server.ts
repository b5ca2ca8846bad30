import { isFields, ServiceError } from '@bureau/protocol'
import type { CallToolResult, Server, ServerContext, Tool } from '@modelcontextprotocol/server'
import type { Logger } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import type { FaceHost } from '../face-host.ts'
import type { Threads } from '../threads.ts'
import { agencyTool, askAgency, failed } from './ask-agency.ts'
import { askingOf, type McpSdk } from './ask-person.ts'
import { progressReport } from './progress.ts'
import { agencyTools } from './tool-names.ts'

/** A tool of the server's own, besides its agencies. */
export type McpTool = {
  readonly name: string
  readonly description: string
  /** JSON Schema of an object. */
  readonly inputSchema: object
  /** Whether a person must approve the call. */
  readonly needsPerson: (input: Readonly<Record<string, unknown>>, request: FastifyRequest) => Promise<boolean>
  /** @throws ServiceError what the caller did wrong. Other errors are not shown. */
  readonly call: (input: Readonly<Record<string, unknown>>, request: FastifyRequest) => Promise<unknown>
}

export type McpOptions = {
  readonly host: FaceHost
  /** Where the server keeps no conversations itself. */
  readonly threads?: Threads
  readonly tools: readonly McpTool[]
  /** Of the server, which clients show. */
  readonly version: string
  /** @throws ServiceError the request comes from a page that may not call. */
  readonly requireOrigin: (request: FastifyRequest) => void
  /** Issuers whose tokens the server takes: clients find them by its metadata. Default: none. */
  readonly authorizationServers?: readonly string[]
  /** The address under which callers know the server. Default: the one that they have used. */
  readonly serverUrl?: string | undefined
  readonly log: Logger
}

const INSTRUCTIONS =
  'Each tool ask_… sends a message to a group of agents, which may work for minutes, and returns its answer. ' +
  'It knows nothing of your conversation: say everything that it needs, or continue a thread by its thread_id.'

const NOBODY_ASKED =
  'A person must approve this call, so it was not carried out. Ask an agency that has the tool: there a person can be asked.'

/** Tools come and go only with the process, but not every caller may use the same. */
const CACHED = { ttlMs: 60_000, cacheScope: 'private' } as const

/** A server of the protocol for one request: the agencies that its caller may use, and the server's own tools. */
export function mcpServer(sdk: McpSdk, options: McpOptions, request: FastifyRequest): Server {
  const server = new sdk.Server(
    { name: 'bureau', title: 'Bureau', version: options.version },
    {
      capabilities: { tools: {} },
      instructions: INSTRUCTIONS,
      cacheHints: { 'tools/list': CACHED, 'server/discover': CACHED },
    },
  )
  const ownNames = new Set(options.tools.map(({ name }) => name))
  const agencies = async () => agencyTools(await options.host.agencies(request), ownNames)
  server.setRequestHandler('tools/list', async () => ({
    tools: [
      ...[...(await agencies())].map(([name, served]) => agencyTool(name, served)),
      ...options.tools.map(({ name, description, inputSchema }) => ({
        name,
        description,
        inputSchema: inputSchema as Tool['inputSchema'],
      })),
    ],
  }))
  server.setRequestHandler('tools/call', async ({ params }, context: ServerContext) => {
    const { name, arguments: input = {} } = params
    const tool = options.tools.find((each) => each.name === name)
    const served = tool ? undefined : (await agencies()).get(name)
    if (!tool && !served) {
      throw new sdk.ProtocolError(
        sdk.ProtocolErrorCode.InvalidParams,
        `There is no tool ${JSON.stringify(name.slice(0, 128))}.`,
      )
    }
    const { signal } = context.mcpReq
    try {
      if (tool && (await tool.needsPerson(input, request))) return failed('approval_required', NOBODY_ASKED)
      if (tool) return resultOf(await tool.call(input, request))
      const asking = askingOf(sdk, context)
      return await askAgency(options, {
        served: served!,
        input,
        request,
        signal,
        report: progressReport(context),
        asking,
      })
    } catch (error) {
      if (error instanceof sdk.ProtocolError) throw error
      if (error instanceof ServiceError) return failed(error.code, error.message)
      if (!signal.aborted) request.log.error({ err: error, tool: name }, 'a call has failed')
      return failed('internal_error', 'Something failed on our side.')
    }
  })
  return server
}

function resultOf(result: unknown): CallToolResult {
  const text = typeof result === 'string' ? result : JSON.stringify(result ?? null)
  const content: CallToolResult['content'] = [{ type: 'text', text }]
  return isFields(result) ? { content, structuredContent: { ...result } } : { content }
}
