import { definitionOf, type FunctionTool, type ToolDefinition } from '@bureau/framework'
import { z } from 'zod'
import { json, operation, pointerTo, ref, type Schemas, withoutIdentity } from './operations.ts'

/** `/tool/<name>` of every tool; their parameters are added to `schemas`. */
export function toolPaths(tools: readonly FunctionTool[], schemas: Schemas): Record<string, object> {
  return Object.fromEntries(tools.map((tool) => [`/tool/${tool.name}`, { post: toolOperation(tool, schemas) }]))
}

const text = { type: 'string' }

/** `Error`, with a capital, is what clients of the Python system read. */
const TOOL_FAILED = {
  description:
    'The tool failed, took longer than it may, or its result is no text and has more than 1,048,576 characters as JSON.',
  content: json({ type: 'object', properties: { Error: text, error: text }, required: ['error'] }),
}

const RESULT = { description: 'What the tool returned. A text of more than 1,048,576 characters is cut, with a note.' }

function toolOperation(tool: FunctionTool, schemas: Schemas): object {
  const definition = definitionOf(tool)
  const name = freeName(definition?.kind === 'class' ? tool.name : `${tool.name}Request`, schemas)
  const schema = definition ? parametersOf(definition) : withoutIdentity(tool.parameters)
  schemas[name] = rebased(schema, pointerTo(name)) as object
  return operation(tool.name, {
    success: json({ type: 'object', properties: { response: RESULT }, required: ['response'] }),
    responses: { 500: TOOL_FAILED },
    request: ref(name),
    bodyRequired: Array.isArray(tool.parameters.required) && tool.parameters.required.length > 0,
    tag: 'tools',
    description: tool.description,
  })
}

function freeName(name: string, schemas: Schemas): string {
  return name in schemas ? freeName(`${name}Tool`, schemas) : name
}

/** In the dialect of OpenAPI 3.1, which differs from what models are given. */
function parametersOf({ parameters, strict }: ToolDefinition): object {
  const schema = withoutIdentity(z.toJSONSchema(parameters, { io: 'input', unrepresentable: 'any' }))
  return strict ? { ...schema, additionalProperties: false } : schema
}

/** References within a schema point to its root, which is now a place inside the document. */
function rebased(node: unknown, root: string): unknown {
  if (Array.isArray(node)) return node.map((each) => rebased(each, root))
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string') return [key, value.replace(/^#/, root)]
      return [key, rebased(value, root)]
    }),
  )
}
