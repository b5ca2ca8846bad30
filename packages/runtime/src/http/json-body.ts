import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { ServiceError } from '@bureau/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { InvalidJson } from './invalid-json.ts'
import { checkJsonLimits } from './json-limits.ts'
import { BodyReceiver } from './receive-body.ts'

/**
 * Reads JSON bodies. Hostile ones are refused before they are parsed (nesting, counts) or used (`__proto__` members).
 *
 * Bodies of any other content type are handed on as null, so that the route can say what it wants.
 */
export function readJsonBodies(app: FastifyInstance): void {
  const bodies = new BodyReceiver()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    /^application\/(?:[\w.-]+\+)?json\b/i,
    async (request: FastifyRequest, payload: Readable) => {
      const body = await bodies.receive(request, payload)
      const encoding = request.headers['content-encoding']
      if (encoding && encoding !== 'identity') throw new ServiceError('invalid_content_type')
      return parseJson(body)
    },
  )
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: Readable) => {
    await bodies.receive(request, payload)
    return null
  })
}

/** @throws InvalidJson, JsonLimitExceeded */
export function parseJson(bytes: Buffer): unknown {
  const { mayHavePrototypes } = checkJsonLimits(bytes)
  // Each byte that has to be replaced takes as long as a hundred others.
  if (!isUtf8(bytes)) throw new InvalidJson('JSON is not valid UTF-8')
  const text = bytes.toString()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const offset = /position (\d+)/.exec((error as Error).message)?.[1]
    throw new InvalidJson('JSON decode error', offset === undefined ? text.length : Number(offset))
  }
  if (mayHavePrototypes) refusePrototypes(value)
  return value
}

function refusePrototypes(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value) && Object.hasOwn(value, '__proto__')) throw new InvalidJson('JSON has a "__proto__" member')
  for (const member of Object.values(value)) refusePrototypes(member)
}
