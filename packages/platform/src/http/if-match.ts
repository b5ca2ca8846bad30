import { ServiceError } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'

/**
 * The version that `If-Match` asks for, to be passed on as `ifVersion`; nothing without the header or with `*`.
 *
 * @throws ServiceError `version_conflict`: the header names no version of ours, so it cannot match.
 */
export function readIfMatch(request: FastifyRequest): { ifVersion?: number } {
  const header = request.headers['if-match']
  if (header === undefined || header.trim() === '*') return {}
  const version = /^\s*"(\d{1,9})"\s*$/.exec(header)?.[1]
  if (version === undefined) throw new ServiceError('version_conflict')
  return { ifVersion: Number(version) }
}
