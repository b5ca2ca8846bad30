const MAX_CHARACTERS = 1_048_576
/** It must come back in a request, which may be nested 64 deep. */
const MAX_DEPTH = 60

const NOTHING = Object.freeze({})

/** What is wrong with a value as shared state; undefined: nothing. Any JSON value of at most 1,048,576 characters fits. */
export function sharedStateProblem(value: unknown): string | undefined {
  if (!isShallow(value, MAX_DEPTH)) return `is nested more than ${MAX_DEPTH} deep`
  const text = JSON.stringify(value) as string | undefined
  if (text === undefined) return 'is not a JSON value'
  return text.length > MAX_CHARACTERS ? `has more than ${MAX_CHARACTERS} characters as JSON` : undefined
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

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every((member) => isShallow(member, depth - 1))
}

function frozenCopy(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) => Object.freeze(part))
}
