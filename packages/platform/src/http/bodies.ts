import { BodyReceiver, readJsonBodies } from '@bureau/runtime'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { callerOf } from './callers.ts'
import { parseAnyStrictJson, parseStrictJson } from './strict-json.ts'

/** JSON is all that is read; its bytes are checked before they are used. */
export function readStrictBodies(app: FastifyInstance): void {
  readJsonBodies(app, {
    // Clients of A2A name their JSON after the protocol.
    types: /^application\/(?:a2a\+)?json\s*(?:;|$)/i,
    receiver: new BodyReceiver({ callersOf }),
    parse: parseBody,
    others: 'refused',
  })
  continueWhenWelcome(app)
}

/** The keys of an owner share what one owner may take, of which the page of one consumer may not take all. */
function callersOf(request: FastifyRequest): string[] {
  const { ownerId, keyId, consumerId } = callerOf(request, false)
  return consumerId === undefined ? [ownerId || request.ip] : [ownerId, keyId]
}

/** Nothing at all is an absent body: many clients always name a content type. */
function parseBody(body: Buffer, request: FastifyRequest): unknown {
  if (body.length === 0) return undefined
  const { nullableBody, anyBody } = request.routeOptions.config as { nullableBody?: boolean; anyBody?: boolean }
  if (nullableBody && body.length < 16 && body.toString().trim() === 'null') return null
  return anyBody ? parseAnyStrictJson(body) : parseStrictJson(body)
}

/** `Expect: 100-continue` is answered when the body is about to be read: after the key was checked. */
function continueWhenWelcome(app: FastifyInstance): void {
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  app.addHook('preParsing', async (request, reply) => {
    if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue()
  })
}
