type Content = readonly { readonly text?: string; readonly refusal?: string }[]

/** What the content of a message says: text, or a list of parts that hold some. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return Array.isArray(content) ? (content as Content).map(({ text, refusal }) => text ?? refusal ?? '').join('') : ''
}
