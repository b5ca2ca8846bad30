import { useSyncExternalStore } from 'react'

/** A value that changes, and whoever wants to know. */
export class Observable<Value> {
  #value: Value
  readonly #listeners = new Set<() => void>()

  constructor(value: Value) {
    this.#value = value
  }

  get value(): Value {
    return this.#value
  }

  set(value: Value): void {
    if (value === this.#value) return
    this.#value = value
    for (const listener of this.#listeners) listener()
  }

  /** @returns Ends it. */
  subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }
}

export const useValue = <Value>(of: Observable<Value>): Value => useSyncExternalStore(of.subscribe, () => of.value)
