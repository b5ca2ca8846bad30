import { EventType, type StateDeltaEvent } from '@ag-ui/core'
import jsonPatch from 'fast-json-patch'
import { frame } from './frame.ts'

/** The state that the page and the agents share, as `STATE_*` events. The page has what it has sent, so that nothing is repeated. */
export class StateEvents {
  #state: unknown

  /** @param state - As the request has it. */
  constructor(state: unknown = {}) {
    this.#state = state
  }

  /** What has changed, or the whole where that is shorter; nothing when all is as it was. */
  changed(state: unknown): string {
    const delta = patchOf(this.#state, state)
    this.#state = state
    if (!delta) return this.snapshot()
    if (delta.length === 0) return ''
    const change = frame({ type: EventType.STATE_DELTA, delta })
    const whole = this.snapshot()
    return change.length < whole.length ? change : whole
  }

  snapshot(): string {
    return frame({ type: EventType.STATE_SNAPSHOT, snapshot: this.#state })
  }
}

/** Undefined: no patch makes the one of the other. */
function patchOf(before: unknown, after: unknown): StateDeltaEvent['delta'] | undefined {
  if (!isTree(before) || !isTree(after)) return before === after ? [] : undefined
  if (Array.isArray(before) !== Array.isArray(after)) return undefined
  // Its type has operations of the library's own, which this function never makes.
  return jsonPatch.compare(before, after) as StateDeltaEvent['delta']
}

function isTree(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
