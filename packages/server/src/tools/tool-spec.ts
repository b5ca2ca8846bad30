import { definitionOf, type FunctionTool, type ToolDefinition } from '@bureau/framework'
import type { RouteSpec } from '@bureau/runtime'
import { z } from 'zod'

const ToolResponse = z.object({
  response: z
    .unknown()
    .describe('What the tool returned. A text of more than 1,048,576 characters is cut, with a note.'),
})

/** `Error`, with a capital, is what clients of the Python system read. */
const TOOL_FAILED = {
  description:
    'The tool failed, took longer than it may, or its result is not text and has more than 1,048,576 characters as JSON.',
  body: z.object({ Error: z.string().optional(), error: z.string() }),
}

/** The row of `POST /tool/<name>`, without its function. */
export function toolSpec(tool: FunctionTool): RouteSpec {
  const { name, description, parameters } = tool
  const definition = definitionOf(tool)
  const takesNothing = !Array.isArray(parameters.required) || parameters.required.length === 0
  return {
    method: 'POST',
    url: `/tool/${name}`,
    id: name,
    summary: name.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => ` ${letter.toUpperCase()}`).trim(),
    tag: 'tools',
    description,
    ownBody: {
      name: definition?.kind === 'class' ? name : `${name}Request`,
      jsonSchema: definition ? parametersOf(definition) : parameters,
    },
    ...(takesNothing && { bodyOptional: true }),
    success: { 200: ToolResponse },
    errors: [],
    otherResponses: { 500: TOOL_FAILED },
  }
}

/** In the dialect of OpenAPI 3.1, which differs from what models are given. */
function parametersOf({ parameters, strict }: ToolDefinition): object {
  const schema = z.toJSONSchema(parameters, { io: 'input', unrepresentable: 'any' })
  return strict ? { ...schema, additionalProperties: false } : schema
}
