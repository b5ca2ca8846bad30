import { ServiceError } from '@bureau/protocol'
import { BodyReceiver } from '@bureau/runtime'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import { callerOf } from './callers.ts'
import { parseStrictJson } from './strict-json.ts'

/** JSON is all that is read; its bytes are checked before they are used. */
export function readStrictBodies(app: FastifyInstance): void {
  // The keys of an owner share what one owner may take.
  const bodies = new BodyReceiver({ callerOf: (request) => callerOf(request, false).ownerId || request.ip })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(/^application\/json\s*(?:;|$)/i, async (request: FastifyRequest, payload: Readable) =>
    readJson(request, await bodies.receive(request, payload)),
  )
  app.addContentTypeParser('*', (_request, _payload, done) => done(new ServiceError('invalid_content_type')))
  continueWhenWelcome(app)
}

/** For routes that read the bytes themselves, as they come. */
export function passRawBodies(app: FastifyInstance): void {
  const bodies = new BodyReceiver()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload: Readable, done) => done(null, bodies.passOn(payload)))
}

/** Nothing at all is an absent body: many clients always name a content type. */
function readJson(request: FastifyRequest, body: Buffer): unknown {
  requirePlain(request)
  if (body.length === 0) return undefined
  const { nullableBody } = request.routeOptions.config as { nullableBody?: boolean }
  if (nullableBody && body.length < 16 && body.toString().trim() === 'null') return null
  return parseStrictJson(body)
}

/** A compressed body could be any size. @throws ServiceError `invalid_content_type` */
export function requirePlain({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') throw new ServiceError('invalid_content_type')
}

/** `Expect: 100-continue` is answered when the body is about to be read: after the key was checked. */
function continueWhenWelcome(app: FastifyInstance): void {
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  app.addHook('preParsing', async (request, reply) => {
    if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue()
  })
}
