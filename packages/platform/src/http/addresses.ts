import type { FastifyRequest } from 'fastify'
import type { Platform } from '../context.ts'

/** Where clients reach the API, without a slash at the end. */
export function baseUrlOf({ config }: Platform, request: FastifyRequest): string {
  return config.publicBaseUrl ?? `${request.protocol}://${request.host}`
}

/** Where the stream of a run can be followed. */
export function eventsUrlOf(platform: Platform, request: FastifyRequest, runId: string): string {
  const base = platform.config.publicStreamUrl ?? baseUrlOf(platform, request)
  return `${base}/v1/runs/${runId}/events`
}
