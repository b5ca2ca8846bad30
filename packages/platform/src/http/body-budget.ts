import type { FastifyInstance, FastifyRequest } from 'fastify'
import { overloaded } from './overload.ts'

const MIB = 1_048_576
/** Bodies that are being received, of all requests together. */
const MAX_BYTES = 512 * MIB

/** Bounds what bodies that are still on their way hold in memory; one that says no length counts as the largest. */
export function boundBodies(app: FastifyInstance, maxBytes = MAX_BYTES): void {
  const held = new WeakMap<FastifyRequest, number>()
  let total = 0
  const release = (request: FastifyRequest): void => {
    total -= held.get(request) ?? 0
    held.delete(request)
  }
  app.addHook('preParsing', async (request) => {
    const bytes = lengthOf(request)
    if (bytes === 0) return
    if (total + bytes > maxBytes) throw overloaded()
    held.set(request, bytes)
    total += bytes
  })
  app.addHook('preValidation', async (request) => release(request))
  app.addHook('onError', async (request) => release(request))
  app.addHook('onResponse', async (request) => release(request))
  app.addHook('onRequestAbort', async (request) => release(request))
}

function lengthOf({ headers, routeOptions }: FastifyRequest): number {
  const { bodyLimit } = routeOptions
  if (headers['transfer-encoding'] !== undefined) return bodyLimit
  const length = Number(headers['content-length'] ?? 0)
  return Number.isFinite(length) ? Math.min(length, bodyLimit) : bodyLimit
}
