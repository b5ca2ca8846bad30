import { type Route, routesOf } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { baseUrlOf } from '../base-url.ts'

type MetadataOptions = {
  readonly authorizationServers?: readonly string[]
  readonly serverUrl?: string | undefined
}

const { rawRoute } = routesOf<object, { readonly open?: true }>()

const PATH = '/.well-known/oauth-protected-resource'

/** Who gives the tokens that `/mcp` takes (RFC 9728): there where an issuer does; a fixed token has none. */
export function metadataRoutes(options: MetadataOptions): Route<object, { readonly open?: true }>[] {
  const { authorizationServers = [] } = options
  if (authorizationServers.length === 0) return []
  // Clients look below the path of the resource first, and then at the root.
  return [`${PATH}/mcp`, PATH].map((url) =>
    rawRoute(
      {
        method: 'GET',
        url,
        id: `mcp_metadata_${url}`,
        tag: 'mcp',
        summary: 'OAuth 2.0 protected resource metadata',
        open: true,
        success: { 200: { contentType: 'application/json', description: 'RFC 9728.' } },
        errors: [],
      },
      async ({ request }, reply) => {
        const resource = `${baseUrlOf(options, request)}/mcp`
        const body = { resource, authorization_servers: authorizationServers, bearer_methods_supported: ['header'] }
        return reply.header('cache-control', 'public, max-age=300').send(body)
      },
    ),
  )
}

/** What a 401 says besides: where that metadata is. */
export function challengeOf(options: MetadataOptions, request: FastifyRequest): Record<string, string> {
  if (!options.authorizationServers?.length) return {}
  return { 'www-authenticate': `Bearer resource_metadata="${baseUrlOf(options, request)}${PATH}/mcp"` }
}
