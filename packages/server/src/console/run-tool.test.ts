import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startTestServer, type TestServer } from '../../../../tests/support/test-server.ts'

const divide = tool({
  name: 'divide',
  description: 'Divides two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  needsApproval: true,
  execute: ({ a, b }, { userContext }) => {
    if (b === 0) throw new Error('cannot divide by zero', { cause: new RangeError('b is 0') })
    return `${a / b} for ${String(userContext['user'])}`
  },
})

const start = (options: object = {}): Promise<TestServer> => {
  const agent = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [divide] })
  return startTestServer({
    agencies: { shop: new Agency({ entryPoint: agent, userContext: { user: 'nobody' } }) },
    ...options,
  })
}

const asked = (more: object = {}): object => ({
  agency: 'shop',
  agent: 'Clerk',
  tool: 'divide',
  arguments: { a: 6, b: 3 },
  ...more,
})

describe('POST /console/tools', () => {
  test('200 carries out a tool of an agent, with the context of the agency and of the request', async () => {
    const server = await start()

    const plain = await server.post('/console/tools', asked())
    const given = await server.post('/console/tools', asked({ user_context: { user: 'ada' } }))

    expect([plain.status, plain.body]).toMatchObject([200, { output: '2 for nobody', failure: null }])
    expect(given.body.output).toBe('2 for ada')
  })

  test('200 with what was thrown, for the operator', async () => {
    const server = await start()

    const { body } = await server.post('/console/tools', asked({ arguments: { a: 1, b: 0 } }))

    expect(body).toMatchObject({ output: null, failure: 'Error: cannot divide by zero\nRangeError: b is 0' })
  })

  test('422 names the argument that does not fit', async () => {
    const server = await start()

    const { status, body } = await server.post('/console/tools', asked({ arguments: { a: 'many' } }))

    expect(status).toBe(422)
    expect(body.detail.map(({ loc }: { loc: string[] }) => loc.join('.'))).toEqual(['body.a', 'body.b'])
  })

  test.each([{ agency: 'no' }, { agent: 'no' }, { tool: 'no' }])('404 for %o', async (wrong) => {
    const server = await start()

    expect((await server.post('/console/tools', asked(wrong))).status).toBe(404)
  })

  test('401 without the token of the server; 404 where runs are not kept, as in production', async () => {
    const closed = await start({ env: { APP_TOKEN: 'secret' } })
    const production = await start({ keepRecentRuns: false })

    expect((await closed.post('/console/tools', asked())).status).toBe(401)
    expect((await production.post('/console/tools', asked())).status).toBe(404)
  })
})
