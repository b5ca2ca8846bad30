import { mountOf } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'

/** The address under which a caller knows the server, without a slash at its end: the configured one, or that of the request. */
export function baseUrlOf({ serverUrl }: { readonly serverUrl?: string | undefined }, request: FastifyRequest): string {
  return (serverUrl ?? `${request.protocol}://${request.host}${mountOf(request)}`).replace(/\/+$/, '')
}
