import { isFields } from '@bureau/protocol'
import { modelErrorOfCode } from '../models/model-failure.ts'
import { invalidAnswer, type ModelError } from '../models/model-error.ts'
import type { ResponsesResponse } from '../agency/model-object.ts'
import { isTooDeep } from '../agency/nesting.ts'
import { publicItem } from './item-events.ts'

const PUBLIC_RESPONSE_FIELDS = [
  'id',
  'object',
  'created_at',
  'completed_at',
  'status',
  'incomplete_details',
  'model',
  'service_tier',
  'usage',
] as const

function publicMembers(response: object): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const field of PUBLIC_RESPONSE_FIELDS) if (field in response) shown[field] = response[field as never]
  return shown
}

export function publicResponse(response: ResponsesResponse): Record<string, unknown> {
  const shown = publicMembers(response)
  if (response.error) shown['error'] = { code: response.error.code ?? null, message: failureOf(response.error).message }
  else shown['error'] = null
  shown['output'] = response.output.map(publicItem)
  return shown
}

/**
 * A response as far as it can be relied on: a list of items, and the name of a model or none.
 *
 * @throws ModelError an entry of the list is not an item, or what is kept is nested too deep.
 */
export function readResponse(value: unknown): ResponsesResponse | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { output, model, error } = value as Partial<ResponsesResponse>
  const items: readonly unknown[] = Array.isArray(output) ? output : []
  items.forEach(requireItem)
  requireShallow({ ...publicMembers(value), error, items })
  // Almost every response is as it should be, and has so many members that a copy would cost as much as its parsing.
  if (items === output && typeof model === 'string') return value as ResponsesResponse
  const { model: _model, ...rest } = value as Partial<ResponsesResponse>
  return { ...rest, ...(typeof model === 'string' && { model }), output: items } as ResponsesResponse
}

type Echo = {
  readonly text: string
  readonly shown: string
  /** The members after its empty output, which come again behind the output of the finished response. */
  readonly settings: string
  /** The members of the settings that clients see. */
  readonly shownSettings: Readonly<Record<string, unknown>>
}

/** What the provider has last said to an agent at the beginning of a response, and what is shown of it. */
const echoes = new WeakMap<object, Echo>()

/**
 * A response that has just begun, as clients see it; undefined when it cannot be read. The provider repeats prompts, tools
 * and settings in it, which are mostly those of the agent's last request, so they are compared and not read again.
 *
 * @param own - Where the text begins with them: its id and time, which differ each time.
 */
export function begunResponse(agent: object, own: string, rest: string): string | undefined {
  const echo = echoes.get(agent)
  if (own !== '' && echo?.text === rest) return own + echo.shown
  const read = readText(own + rest)
  const shown = read && JSON.stringify(publicResponse(read))
  if (own !== '' && shown?.startsWith(own))
    echoes.set(agent, { text: ownCopy(rest), shown: ownCopy(shown.slice(own.length)), ...settingsIn(rest) })
  return shown
}

const NO_OUTPUT = '"output":[],'
const USAGE = '"usage":'

/** Cut out by searching for texts: a pattern would take time in proportion to the square of what a server sends. */
function settingsIn(response: string): Pick<Echo, 'settings' | 'shownSettings'> {
  const start = response.indexOf(NO_OUTPUT)
  const end = Math.max(0, response.lastIndexOf(`${USAGE}null`))
  const settings = start < 0 ? '' : ownCopy(response.slice(start + NO_OUTPUT.length, end))
  try {
    return { settings, shownSettings: publicMembers(JSON.parse(`{${settings.slice(0, -1)}}`) as object) }
  } catch {
    return { settings: '', shownSettings: {} } // the ends of two other objects: no whole members
  }
}

/**
 * The event with which a response has ended: what the provider has said at its beginning is not read again.
 *
 * @throws ModelError the event is not JSON, or what is beside the response is nested too deep.
 */
export function parseEnded(agent: object, json: string): { response?: unknown } {
  const { settings = '', shownSettings } = echoes.get(agent) ?? {}
  // They follow the output, and the usage follows them.
  const at = json.lastIndexOf(USAGE) - settings.length
  const areThere = settings !== '' && at > 0 && json.startsWith(settings, at)
  const text = areThere ? json.slice(0, at) + json.slice(at + settings.length) : json
  const event = parsed(text) as { response?: object }
  requireShallow({ ...event, response: null })
  return event.response && areThere ? { ...event, response: { ...shownSettings, ...event.response } } : event
}

/** A part of a text keeps the whole text in memory, here everything that was read from the socket with it. */
export function ownCopy(text: string): string {
  return Buffer.from(text).toString()
}

function readText(response: string): ResponsesResponse | undefined {
  try {
    return readResponse(JSON.parse(response))
  } catch {
    return undefined
  }
}

/** @throws ModelError a value is not an item. */
export function requireItem(value: unknown): void {
  const isItem = isFields(value) && (value['type'] == null || typeof value['type'] === 'string')
  if (!isItem) throw invalidAnswer('an output item is not an object with a type')
}

/** @throws ModelError the event is not JSON, or nested deeper than what clients can send back. */
export function parseEvent(json: string): unknown {
  const event = parsed(json)
  requireShallow(event)
  return event
}

function requireShallow(value: unknown): void {
  if (isTooDeep(value)) throw invalidAnswer('an event of the stream is nested too deep')
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch (cause) {
    throw invalidAnswer('an event of the stream is not valid JSON', cause)
  }
}

export function failureOf(error: { code?: string; message?: string }): ModelError {
  return modelErrorOfCode(error.code, `${error.code ?? ''} ${error.message ?? ''}`.trim())
}
