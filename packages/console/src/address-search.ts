type Search = Readonly<Record<string, unknown>>

/** What the search of an address says by these names. A number there is read as one; what is empty is not there. */
export function textsOf<const Name extends string>(
  search: Search,
  names: readonly Name[],
): { readonly [At in Name]?: string } {
  const given = names.flatMap((name) => {
    const value = search[name]
    const text = typeof value === 'number' ? String(value) : value
    return typeof text === 'string' && text !== '' ? [[name, text]] : []
  })
  return Object.fromEntries(given) as { readonly [At in Name]?: string }
}
