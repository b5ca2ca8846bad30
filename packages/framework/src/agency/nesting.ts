import type { Fields } from '@bureau/protocol'

/** What clients get comes back in their requests, which may be nested 64 deep. */
export const MAX_DEPTH = 60

/** Whether a JSON value is nested deeper than that: thousands of levels cannot be written again. Every item of a model is looked at. */
export function isTooDeep(value: unknown, depth = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth === 0) return true
  if (Array.isArray(value)) return value.some((member) => isTooDeep(member, depth - 1))
  for (const name in value) if (isTooDeep((value as Fields)[name], depth - 1)) return true
  return false
}
