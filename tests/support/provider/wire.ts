import { randomBytes } from 'node:crypto'
import type { Gate } from './gate.ts'
import type { JsonObject } from './json-object.ts'
import { DEFAULT_USAGE, type Cut, type CutHow, type EventMark, type Hold } from './turn.ts'
import type { Part, TokenUsage } from './turn.ts'

/** What is done to the socket, in order. A stream is a list of these for either model API. */
export type Step =
  | { readonly step: 'event'; readonly name: string | null; readonly data: string }
  | { readonly step: 'hold'; readonly gate: Gate }
  | { readonly step: 'cut'; readonly how: CutHow }
  | { readonly step: 'raw'; readonly bytes: Buffer }

export type WireAnswer = {
  readonly steps: readonly Step[]
  /** What a request without `stream` gets. */
  readonly whole: { readonly status: number; readonly body: JsonObject }
  /** The finished output items (Responses only). */
  readonly output: readonly JsonObject[]
}

/** Makes an id in the style of the service; no two are the same, in any process. */
export const newId = (prefix: string): string => `${prefix}_${randomBytes(24).toString('hex')}`

export const stepOfHold = ({ gate }: Hold): Step => ({ step: 'hold', gate })

/** The last `usage` part counts; without one the defaults are reported, with `usage(null)` nothing. */
export function usageOf(parts: readonly Part[]): TokenUsage | null {
  const told = parts.findLast((part) => part.part === 'usage')
  return told ? told.usage : DEFAULT_USAGE
}

export const responseFieldsOf = (parts: readonly Part[]): JsonObject =>
  Object.assign({}, ...parts.flatMap((part) => (part.part === 'response_fields' ? [part.fields] : [])))

/** The padding that the service adds to deltas, so that their lengths tell nothing about the text. */
export const obfuscation = (delta: string): string => 'x'.repeat(16 - (delta.length % 16))

export function obfuscates(body: JsonObject): boolean {
  const options = body['stream_options']
  return !(typeof options === 'object' && options && 'include_obfuscation' in options && !options.include_obfuscation)
}

/**
 * Puts the stops and cuts that name an event into the list.
 *
 * @throws Error when an answer has no such event: a stop that never comes would make a test pass for nothing.
 */
export function placeMarked(steps: readonly Step[], parts: readonly Part[]): readonly Step[] {
  const placed = [...steps]
  for (const part of parts) {
    if (part.part === 'hold' && part.before !== null && part.before !== 'headers') {
      placed.splice(indexOfEvent(placed, part.before), 0, stepOfHold(part))
    }
    if (part.part === 'cut' && part.after !== null) placed.splice(indexAfter(placed, part.after), 0, stepOfCut(part))
  }
  return placed
}

export const stepOfCut = ({ how }: Cut): Step => ({ step: 'cut', how })

const indexAfter = (steps: readonly Step[], count: number): number =>
  count === 0 ? 0 : indexOfEvent(steps, count - 1) + 1

function indexOfEvent(steps: readonly Step[], mark: EventMark): number {
  let seen = 0
  const index = steps.findIndex((step) => {
    if (step.step !== 'event') return false
    return typeof mark === 'string' ? step.name === mark || step.data === mark : seen++ === mark
  })
  if (index >= 0) return index
  const names = steps.flatMap((step) => (step.step === 'event' ? [step.name ?? 'chunk'] : []))
  throw new Error(`This answer has no event ${mark}. It has ${names.length}: ${[...new Set(names)].join(', ')}.`)
}
