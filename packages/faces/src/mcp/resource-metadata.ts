import { ok, type Route, routesOf } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { baseUrlOf } from '../base-url.ts'

type MetadataOptions = {
  readonly authorizationServers?: readonly string[]
  readonly serverUrl?: string | undefined
}

const { jsonRoute } = routesOf<object, { readonly open?: true }>()

const Metadata = z.object({
  resource: z.string(),
  authorization_servers: z.array(z.string()),
  bearer_methods_supported: z.array(z.literal('header')),
})

const PATH = '/.well-known/oauth-protected-resource'

/**
 * Who gives the tokens that `/mcp` takes (RFC 9728): there where an issuer does; a fixed token has none. No scope is demanded, so
 * `scopes_supported` is left out, as the RFC wants it of empty lists (section 3.2), and MCP clients ask for none.
 */
export function metadataRoutes(options: MetadataOptions): Route<object, { readonly open?: true }>[] {
  const { authorizationServers = [] } = options
  if (authorizationServers.length === 0) return []
  // Clients look below the path of the resource first, and then at the root.
  return [`${PATH}/mcp`, PATH].map((url, index) =>
    jsonRoute(
      {
        method: 'GET',
        url,
        id: index === 0 ? 'mcp_metadata' : 'mcp_metadata_of_host',
        tag: 'mcp',
        summary: 'OAuth 2.0 protected resource metadata (RFC 9728)',
        open: true,
        success: { 200: Metadata },
        errors: [],
      },
      async ({ request }) => {
        const resource = `${baseUrlOf(options, request)}/mcp`
        const body = {
          resource,
          authorization_servers: [...authorizationServers],
          bearer_methods_supported: ['header' as const],
        }
        return ok(body, { 'cache-control': 'public, max-age=300' })
      },
    ),
  )
}

/** What a 401 says besides: where that metadata is. */
export function challengeOf(options: MetadataOptions, request: FastifyRequest): Record<string, string> {
  if (!options.authorizationServers?.length) return {}
  return { 'www-authenticate': `Bearer resource_metadata="${baseUrlOf(options, request)}${PATH}/mcp"` }
}
