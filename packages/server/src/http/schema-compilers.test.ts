import fastify from 'fastify'
import { expect, test } from 'vitest'
import { schemaCompilers } from './schema-compilers.ts'

test('a route with a JSON Schema is checked and written as by Fastify alone', async () => {
  const body = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
  const answer = { type: 'object', properties: { n: { type: 'integer' } } }
  const answers = [{}, { schemaController: { compilersFactory: schemaCompilers } }].map(async (options) => {
    const app = fastify(options)
    app.post('/', { schema: { body, response: { 200: answer } } }, async ({ body }) => ({
      ...(body as object),
      more: 1,
    }))
    const good = await app.inject({ method: 'POST', url: '/', payload: { n: '3' } })
    const bad = await app.inject({ method: 'POST', url: '/', payload: {} })
    return [good.statusCode, good.body, bad.statusCode, bad.body]
  })

  const [own, ours] = await Promise.all(answers)

  expect(ours).toEqual(own)
  expect(ours?.slice(0, 3)).toEqual([200, '{"n":3}', 400])
})
