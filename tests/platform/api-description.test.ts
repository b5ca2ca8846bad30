import { Validator } from '@seriousme/openapi-schema-validator'
import { ROUTES } from '@bureau/platform/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'
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
  ])
  expect(Object.keys(document.paths['/get_completion_v2']!['post']!.responses)).toEqual(
    expect.arrayContaining(['200', '400', '401', '403', '404', '409', '422', '429', '500', '503']),
  )
  expect(document.paths['/create_new_chat']?.['post']?.responses).toHaveProperty('200')
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

test('every example is what its schema says', () => {
  for (const { id, body, success, examples } of ROUTES) {
    if (examples?.request !== undefined) expect([id, body?.safeParse(examples.request).error]).toEqual([id, undefined])
    const schema = success[200] ?? success[201]
    if (examples?.response === undefined) continue
    expect(schema instanceof z.ZodType && schema.safeParse(examples.response).error).toBeUndefined()
  }
})
