import { isJsonObject, jsonObjects, type JsonObject } from './json-object.ts'
import { invalidType, missingParameter, ProviderError } from './provider-error.ts'

/**
 * Refuses function tools that the real service refuses: bad names and strict schemas that are not closed.
 *
 * @param functionOf - Where a tool keeps its function: at its top (Responses) or under `function` (chat).
 * @throws ProviderError
 */
export function checkTools(tools: unknown, functionOf: (tool: JsonObject) => unknown): void {
  if (tools === undefined || tools === null) return
  if (!Array.isArray(tools)) throw invalidType('tools', 'an array of objects')
  for (const [index, tool] of tools.entries()) {
    const path = `tools[${index}]`
    if (!isJsonObject(tool)) throw invalidType(path, 'an object')
    if (tool['type'] === undefined) throw missingParameter(`${path}.type`)
    if (tool['type'] === 'function') checkFunction(functionOf(tool), path)
  }
}

function checkFunction(definition: unknown, path: string): void {
  if (!isJsonObject(definition)) throw missingParameter(`${path}.function`)
  const { name, parameters, strict } = definition
  if (typeof name !== 'string' || name === '') throw missingParameter(`${path}.name`)
  if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name)) throw nameError(path, name)
  if (strict === true) checkStrictSchema(parameters, `function '${name}'`, `${path}.parameters`)
}

const nameError = (path: string, name: string): ProviderError =>
  new ProviderError(`Invalid '${path}.name': '${name}' does not match '^[a-zA-Z0-9_-]{1,64}$'.`, {
    param: `${path}.name`,
    code: 'invalid_value',
  })

/**
 * Checks a JSON Schema against the rules of strict mode.
 *
 * @param owner - As the sentence names it, e.g. `function 'add'`.
 * @throws ProviderError `invalid_function_parameters`
 */
export function checkStrictSchema(schema: unknown, owner: string, param: string): void {
  const refuse = (context: readonly string[], problem: string): never => {
    const place = context.map((key) => `'${key}'`).join(', ')
    const message = `Invalid schema for ${owner}: In context=(${place}), ${problem}`
    throw new ProviderError(message, { param, code: 'invalid_function_parameters' })
  }
  if (!isJsonObject(schema) || schema['type'] !== 'object') return refuse([], "schema must have a 'type' of 'object'.")
  visit(schema, [], refuse)
}

type Refuse = (context: readonly string[], problem: string) => never

function visit(schema: unknown, context: readonly string[], refuse: Refuse): void {
  if (!isJsonObject(schema)) return
  const forbidden = FORBIDDEN.find((keyword) => keyword in schema)
  if (forbidden) refuse(context, `'${forbidden}' is not permitted.`)
  if (mayBeObject(schema)) checkClosed(schema, context, refuse)
  for (const key of ['properties', '$defs', 'definitions']) {
    for (const [name, inner] of entriesOf(schema[key])) visit(inner, [...context, key, name], refuse)
  }
  visit(schema['items'], [...context, 'items'], refuse)
  for (const [index, inner] of jsonObjects(schema['anyOf']).entries()) {
    visit(inner, [...context, 'anyOf', String(index)], refuse)
  }
}

const FORBIDDEN = ['allOf', 'oneOf', 'not', 'if', 'default', 'patternProperties', 'dependentRequired']

const mayBeObject = ({ type, properties }: JsonObject): boolean =>
  type === 'object' || (Array.isArray(type) && type.includes('object')) || properties !== undefined

function checkClosed(schema: JsonObject, context: readonly string[], refuse: Refuse): void {
  if (schema['additionalProperties'] !== false) {
    refuse(context, "'additionalProperties' is required to be supplied and to be false.")
  }
  const required: readonly unknown[] = Array.isArray(schema['required']) ? schema['required'] : []
  const missing = entriesOf(schema['properties']).find(([name]) => !required.includes(name))
  if (missing) {
    const rule = "'required' is required to be supplied and to be an array including every key in properties."
    refuse(context, `${rule} Missing '${missing[0]}'.`)
  }
}

const entriesOf = (value: unknown): readonly (readonly [string, unknown])[] =>
  isJsonObject(value) ? Object.entries(value) : []
