import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { examplesOf, platformDescription } from './support/platform-description.ts'
import { addOneOfEach, type Ids, MISSING, namesIn, requestOf, routeNamed, send } from './support/one-of-each.ts'
import { servePlatform } from './support/test-platform.ts'

const platform = servePlatform('pglite')

test('the description is valid OpenAPI 3.0.3, version 1.0.0, and needs no key', async () => {
  const response = await fetch(`${platform.url}/v1/openapi.json`)
  const document = (await response.json()) as Record<string, never>

  const result = await new Validator().validate(structuredClone(document))

  expect(result).toMatchObject({ valid: true })
  expect(document).toMatchObject({ openapi: '3.0.3', info: { version: '1.0.0' } })
})

test('the stated operations have their stated names and fields', async () => {
  const document = (await (await fetch(`${platform.url}/v1/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>
    components: { schemas: Record<string, { properties: object; required: string[] }> }
  }

  expect(document.paths['/get_completion_v2']?.['post']?.operationId).toBe('getCompletionV2')
  const request = document.components.schemas['GetCompletionV2Request']!
  expect(request.required).toEqual(['apiIntegrationId', 'message'])
  expect(Object.keys(request.properties)).toEqual([
    'apiIntegrationId',
    'message',
    'agent',
    'chatId',
    'aliasChatId',
    'attachments',
    'sandboxFiles',
    'user_context',
    'consumerId',
    'usageRequestId',
    'attachmentUrlRefreshes',
    'rejectPending',
  ])
  expect(Object.keys(document.paths['/get_completion_v2']!['post']!.responses)).toEqual(
    expect.arrayContaining(['200', '400', '401', '403', '404', '409', '422', '429', '500', '503']),
  )
  expect(document.paths['/create_new_chat']?.['post']?.responses).toHaveProperty('200')
  const { Attachment, InputFile, InputImage } = document.components.schemas
  expect(Attachment).toMatchObject({ discriminator: { propertyName: 'type' } })
  for (const each of [InputFile, InputImage]) expect(each).toMatchObject({ additionalProperties: false })
  expect(Object.keys(InputFile!.properties)).toEqual(['type', 'file_url', 'filename'])
  expect(Object.keys(InputImage!.properties)).toEqual(['type', 'image_url', 'detail'])
  expect([InputFile!.required, InputImage!.required]).toEqual([
    ['type', 'file_url'],
    ['type', 'image_url'],
  ])
})

test.each(['/v1/docs', '/v1/redoc'])('%s is a page that asks nobody else for anything', async (path) => {
  const response = await fetch(platform.url + path)

  expect(response.status).toBe(200)
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  const assets = [...(await response.text()).matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g)].map(([, asset]) => asset!)
  expect(assets.length).toBeGreaterThan(0)
  for (const asset of assets) {
    expect((await fetch(new URL(asset, platform.url + path))).status).toBe(200)
  }
})

test.each(['/llms.txt', '/guide/platform.md', '/guide/examples/09-platform-client.ts'])(
  '%s is served to everybody, from the package itself',
  async (path) => {
    const response = await fetch(platform.url + path)

    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(/^text\/(plain|markdown); charset=utf-8$/)
    expect((await response.text()).length).toBeGreaterThan(500)
  },
)

const described = platformDescription()

test('the size of a page is a number, with its limits', () => {
  const { operation } = described.operations.find(({ id }) => id === 'listRuns')!
  const limit = operation.parameters?.find(({ name }) => name === 'limit')
  expect(limit?.schema).toMatchObject({ type: 'integer', minimum: 1, maximum: 100 })
})

test.each(described.operations)('$method $path: its examples are what its schemas say', ({ operation }) => {
  for (const { schema, examples } of examplesOf(operation)) {
    for (const example of examples) expect(described.problems(schema, example)).toEqual([])
  }
})

test.each(described.operations.filter(({ operation }) => operation.requestBody?.content['application/json']?.example))(
  '$method $path: its example of a request can be sent, and its answer is what the description says',
  async ({ id, operation }) => {
    platform.provider.respond(() => text('Sent.'))
    const { client, ids } = await addOneOfEach(platform, id)
    const example = withOwn(operation.requestBody!.content['application/json']!.example, ids)

    const answer = await send(client, requestOf(routeNamed(id), ids, example))

    const statuses = asksWaitingRun(id) ? [404] : [200, 201, 202]
    expect([answer.status, answer.text]).toEqual([expect.toBeOneOf(statuses), expect.any(String)])
    expect(described.undescribed(id, answer)).toEqual([])
  },
)

test.each(described.operations.filter(({ id }) => id !== 'isReady'))(
  '$method $path: what is really answered is what the description says, and nothing is left out of it',
  async ({ id }) => {
    platform.provider.respond(() => text('Sent.'))
    const { client, ids } = await addOneOfEach(platform, id)

    const answer = await send(client, requestOf(routeNamed(id), ids))

    // What is about nothing of a tenant, a sign-in that is not under way, or an address at which nobody answers, may be refused.
    const mayBeRefused =
      namesIn(routeNamed(id)).length === 0 || ['startSignIn', 'testWebhookEndpoint'].includes(id) || asksWaitingRun(id)
    if (!mayBeRefused) expect(answer.status).toBeLessThan(300)
    expect(described.undescribed(id, answer)).toEqual([])
  },
)

test('refusals are what the description says', async () => {
  const { client } = await addOneOfEach(platform, 'refused')
  for (const { id } of described.operations.filter(({ operation }) => operation.responses['404'])) {
    const answer = await send(client, requestOf(routeNamed(id), MISSING))

    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(described.undescribed(id, answer)).toEqual([])
  }
})

/** No run of these tests waits for a person; approvals.test.ts has those. */
function asksWaitingRun(id: string): boolean {
  return id === 'decideApprovals'
}

/** The values of the examples stand for things of a tenant. */
function withOwn(example: unknown, ids: Ids): unknown {
  const swapped: Readonly<Record<string, unknown>> = {
    int_01kaexample00000000000000: ids.integrationId,
    run_01kaexample00000000000000: ids.runId,
    demo: 'shop',
  }
  return JSON.parse(JSON.stringify(example), (_name, value: unknown) =>
    typeof value === 'string' ? (swapped[value] ?? value) : value,
  )
}
