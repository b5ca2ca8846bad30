import { MAX_DEPTH } from './nesting.ts'

const MAX_CHARACTERS = 1_048_576

const TOO_DEEP = `is nested more than ${MAX_DEPTH} deep`
const TOO_LONG = `has more than ${MAX_CHARACTERS} characters as JSON`

const NOTHING = Object.freeze({})

/** What is wrong with a value as shared state; undefined: nothing. Any JSON value of at most 1,048,576 characters fits. */
export function sharedStateProblem(value: unknown): string | undefined {
  const problem = problemOf(value, MAX_DEPTH, { left: MAX_CHARACTERS })
  if (problem !== undefined) return problem
  const text = JSON.stringify(value) as string | undefined
  if (text === undefined) return 'is not a JSON value'
  return text.length > MAX_CHARACTERS ? TOO_LONG : undefined
}

/**
 * What a page and the agents of a run both see and change, as AG-UI has it. It comes with the request and goes back with
 * each change; a protocol without it begins with `{}` and shows no change.
 */
export class SharedState {
  readonly #changed: (value: unknown) => void
  #value: unknown

  /** @param changed - Called with each new value, which is not changed any more. */
  constructor(value: unknown = NOTHING, changed: (value: unknown) => void = () => {}) {
    this.#value = value === NOTHING ? value : frozenCopy(value)
    this.#changed = changed
  }

  /** The state as it is now, frozen. What comes from the page is untrusted: parse it before you rely on its shape. */
  get value(): unknown {
    return this.#value
  }

  /**
   * Replaces the state. Other tools of the same turn may change it too, so read `value` right before.
   *
   * @throws TypeError it is not a JSON value, is nested more than 60 deep, or has more than 1,048,576 characters as JSON.
   */
  set(value: unknown): void {
    const problem = sharedStateProblem(value)
    if (problem !== undefined) throw new TypeError(`The shared state ${problem}.`)
    this.#value = frozenCopy(value)
    this.#changed(this.#value)
  }
}

/**
 * Looks at a value before it is written, because an object that shares its parts may be longer as JSON than memory holds.
 *
 * @param room - The characters that are left. Each value takes one of them at least.
 */
function problemOf(value: unknown, depth: number, room: { left: number }): string | undefined {
  room.left -= typeof value === 'string' ? value.length + 2 : 1
  if (room.left < 0) return TOO_LONG
  if (typeof value !== 'object' || value === null) return undefined
  if (depth === 0) return TOO_DEEP
  for (const member of Object.values(value)) {
    const problem = problemOf(member, depth - 1, room)
    if (problem !== undefined) return problem
  }
  return undefined
}

function frozenCopy(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) => Object.freeze(part))
}
