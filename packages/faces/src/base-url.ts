import { mountOf } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'

/** The address under which a caller knows the server: the configured one without a slash at its end, or that of the request. */
export function baseUrlOf({ serverUrl }: { readonly serverUrl?: string | undefined }, request: FastifyRequest): string {
  return serverUrl?.replace(/\/+$/, '') ?? `${request.protocol}://${request.host}${mountOf(request)}`
}
