import { Tool, tool } from '@bureau/framework'
import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { toolsOpenApi } from './tools-openapi.ts'

class WordCount extends Tool {
  readonly description = 'Counts words.'
  readonly parameters = z.object({ text: z.string() })

  run({ text }: { text: string }): number {
    return text.split(/\s+/).length
  }
}

const Line: z.ZodType = z.object({
  product: z.string(),
  get parts() {
    return z.array(Line)
  },
})
const order = tool({
  name: 'order',
  description: 'Orders.',
  parameters: z.object({ lines: z.array(Line), note: z.string().optional() }),
  execute: () => 'ordered',
})

test('tools are described as OpenAPI 3.1 text that others can import', async () => {
  const text = toolsOpenApi([WordCount, order], { url: 'https://tools.example.com', description: 'Our tools.' })
  const document = JSON.parse(text)

  expect(text).toBe(JSON.stringify(document, null, 2))
  expect((await new Validator().validate(structuredClone(document))).valid).toBe(true)
  expect(document).toMatchObject({
    openapi: '3.1.0',
    info: { title: 'Agent Tools', version: 'v1.0.0', description: 'Our tools.' },
    servers: [{ url: 'https://tools.example.com' }],
  })
  expect(Object.keys(document.paths)).toEqual(['/tool/WordCount', '/tool/order'])
  expect(Object.keys(document.components.schemas)).toEqual([
    'HTTPValidationError',
    'ValidationError',
    'WordCount',
    'orderRequest',
  ])
  expect(document.components.schemas.orderRequest).toMatchObject({ required: ['lines'], additionalProperties: false })
  const recursion = /#\/components\/schemas\/orderRequest\/[$\w/]+/.exec(text)?.[0] ?? ''
  const target = recursion
    .slice(2)
    .split('/')
    .reduce((node, step) => node[step], document)
  expect(target).toMatchObject({ type: 'object', required: ['product', 'parts'] })
})

test("the title is the caller's choice, and a tool may be named as another schema is", () => {
  const request = tool({ name: 'HTTPValidationError', description: '', parameters: z.object({}), execute: () => '' })
  class ValidationError extends WordCount {}
  const document = JSON.parse(toolsOpenApi([request, ValidationError], { url: 'https://x.example', title: 'Mine' }))

  expect(document.info).toEqual({ title: 'Mine', version: 'v1.0.0' })
  expect(Object.keys(document.components.schemas)).toEqual([
    'HTTPValidationError',
    'ValidationError',
    'HTTPValidationErrorRequest',
    'ValidationErrorTool',
  ])
})

test('two tools of one name cannot be described', () => {
  expect(() => toolsOpenApi([order, order], { url: 'https://x.example' })).toThrow('two tools are named "order"')
})
