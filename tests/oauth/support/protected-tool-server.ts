import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  type AuthInfo,
  createMcpHandler,
  getOAuthProtectedResourceMetadataUrl,
  McpServer,
  OAuthError,
  OAuthErrorCode,
  oauthMetadataResponse,
  requireBearerAuth,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { closeAfterTest } from '../../support/test-server.ts'
import type { IdentityProvider } from './identity-provider.ts'

export type ProtectedToolServer = {
  readonly url: string
  /** `user: tool` of every call. */
  readonly calls: readonly string[]
  /** Requests of any kind, refused ones included. */
  readonly requests: number
  /** Connections that are open now. */
  connections(): Promise<number>
  close(): Promise<void>
  /** From now on, it answers nothing. */
  hang(): void
  /** From now on, access tokens from before are refused. */
  expireAccessTokens(): void
}

type ProtectedToolServerOptions = {
  readonly tools?: readonly string[]
  /** The host by which it names its provider. */
  readonly metadataHost?: string | undefined
  /** True: requests without a token are served too. */
  readonly open?: boolean
}

/** A real MCP server on loopback whose tools need a token of the identity provider for this very server. */
export async function startProtectedToolServer(
  idp: IdentityProvider,
  options: ProtectedToolServerOptions = {},
): Promise<ProtectedToolServer> {
  const http = createServer()
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
  const { tools = ['read_notes', 'write_note'], metadataHost, open = false } = options
  const calls: string[] = []
  const expired = new Set<string>()
  const seen = new Set<string>()
  let requests = 0

  const verifyAccessToken = async (token: string): Promise<AuthInfo> => {
    const found = expired.has(token) ? undefined : await idp.provider.AccessToken.find(token)
    if (!found) throw new OAuthError(OAuthErrorCode.InvalidToken, 'unknown token')
    seen.add(token)
    return {
      token,
      clientId: found.clientId ?? '',
      scopes: (found.scope ?? '').split(' '),
      expiresAt: found.exp ?? 0,
      resource: new URL([found.aud ?? ''].flat()[0]!),
      extra: { user: found.accountId },
    }
  }
  const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(new URL(url))
  const bearer = { verifier: { verifyAccessToken }, expectedResource: new URL(url), resourceMetadataUrl }
  const gate = requireBearerAuth(bearer)
  const writeGate = requireBearerAuth({ ...bearer, requiredScopes: ['notes:write'] })
  const found = await (await fetch(`${idp.issuer}/.well-known/openid-configuration`)).text()
  const metadata = JSON.parse(metadataHost === undefined ? found : found.replaceAll('127.0.0.1', metadataHost))
  const mcp = createMcpHandler(() => notesServer(tools, calls))
  let hangs = false
  const handle = async (request: Request): Promise<Response> => {
    requests++
    if (hangs) await new Promise(() => {})
    const document = oauthMetadataResponse(request, {
      oauthMetadata: metadata as never,
      resourceServerUrl: new URL(url),
      scopesSupported: ['notes:read'],
      dangerouslyAllowInsecureIssuerUrl: true,
    })
    if (document) return document
    if (open && !request.headers.has('authorization')) return mcp.fetch(request)
    const authInfo = await ((await isWrite(request)) ? writeGate : gate)(request)
    return authInfo instanceof Response ? authInfo : mcp.fetch(request, { authInfo })
  }
  const listener = toNodeHandler({ fetch: handle })
  // Node's and the adapter's types differ in whether an absent method is `undefined`.
  http.on('request', (request, response) => void listener(request as never, response))
  const close = async (): Promise<void> => {
    http.closeAllConnections()
    await new Promise((resolve) => http.close(resolve))
  }
  closeAfterTest(close)
  return {
    url,
    calls,
    get requests() {
      return requests
    },
    close,
    hang: () => void (hangs = true),
    connections: promisify(http.getConnections.bind(http)),
    expireAccessTokens: () => seen.forEach((token) => expired.add(token)),
  }
}

/** Calls of `write...` tools need a scope that nobody has at first. */
async function isWrite(request: Request): Promise<boolean> {
  if (request.method !== 'POST') return false
  const message = (await request.clone().json()) as { method?: string; params?: { name?: string } }
  return message.method === 'tools/call' && (message.params?.name?.startsWith('write') ?? false)
}

/** Tools that say whose token they were called with. */
function notesServer(tools: readonly string[], calls: string[]): McpServer {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  for (const name of tools) {
    const writes = name.startsWith('write')
    server.registerTool(
      name,
      { description: `${name} of the user`, inputSchema: z.object({}) },
      async (_input, context) => {
        const user = String(context.http?.authInfo?.extra?.['user'])
        calls.push(`${user}: ${name}`)
        if (name.startsWith('hang'))
          await new Promise((resolve) => context.mcpReq.signal.addEventListener('abort', resolve))
        return { content: [{ type: 'text', text: `${writes ? 'Written' : 'Notes'} of ${user}` }] }
      },
    )
  }
  return server
}
