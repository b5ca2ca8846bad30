const MAX_FAILURE_LENGTH = 2_000
const MAX_CAUSES = 4

/** Text, or JSON, of a value; what is longer than `maxLength` characters is cut. */
export function shortened(value: unknown, maxLength: number): string {
  const text = typeof value === 'string' ? value : jsonOf(value)
  return text.length <= maxLength ? text : text.slice(0, Math.max(0, maxLength))
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? ''
  } catch {
    return ''
  }
}

/** The characters that are left of `room` when a JSON value has taken its own, about; negative: it does not fit. */
export function fits(value: unknown, room: number): number {
  if (room < 0) return room
  if (typeof value === 'string') return room - value.length
  if (typeof value !== 'object' || value === null) return room - 8
  let left = room - 2
  for (const [name, member] of Object.entries(value)) {
    left = fits(member, left - name.length)
    if (left < 0) return left
  }
  return left
}

/** What was thrown, with its causes and what only operators may see. No stack: it names folders of the machine. */
export function describeThrown(error: unknown): string {
  const sentences: string[] = []
  for (let each = error, depth = 0; each != null && depth < MAX_CAUSES; depth += 1) {
    const { name, message, detail, cause } = each as Partial<Error> & { readonly detail?: unknown }
    const text = each instanceof Error ? `${name}: ${message}` : shortened(each, MAX_FAILURE_LENGTH)
    if (!sentences.includes(text)) sentences.push(text)
    if (typeof detail === 'string' && detail !== '') sentences.push(detail)
    each = cause
  }
  return sentences.join('\n').slice(0, MAX_FAILURE_LENGTH)
}
