/** Statements beyond these are sent without a name: whoever makes texts on the fly must not fill the server's memory. */
const MAX_NAMES = 500

const names = new Map<string, string>()

/**
 * Under its name the server parses and plans a statement once for each connection, and then keeps it.
 *
 * The same name for the same text on every connection; undefined when there are too many.
 */
export function nameOf(text: string): string | undefined {
  const known = names.get(text)
  if (known !== undefined || names.size >= MAX_NAMES) return known
  const name = `bureau_${names.size + 1}`
  names.set(text, name)
  return name
}
