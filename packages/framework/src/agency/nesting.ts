/** What clients get comes back in their requests, which may be nested 64 deep. */
export const MAX_DEPTH = 60

/** Whether a JSON value is nested deeper than that: thousands of levels cannot be written again. */
export function isTooDeep(value: unknown, depth = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return false
  return depth === 0 || Object.values(value).some((member) => isTooDeep(member, depth - 1))
}
