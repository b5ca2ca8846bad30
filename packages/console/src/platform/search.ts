import { useNavigate, useSearch } from '@tanstack/react-router'

/** What the pages of the platform are about, in the address. */
type PlatformSearch = {
  readonly integration?: string
  readonly status?: string
  readonly consumer?: string
  readonly group?: string
  readonly days?: string
}

const NAMES = ['integration', 'status', 'consumer', 'group', 'days'] as const

export function readSearch(search: Readonly<Record<string, unknown>>): PlatformSearch {
  const given = NAMES.flatMap((name) => {
    const value = search[name]
    // A number in an address is read as one.
    const text = typeof value === 'number' ? String(value) : value
    return typeof text === 'string' && text !== '' ? [[name, text]] : []
  })
  return Object.fromEntries(given) as PlatformSearch
}

/** The search of the page that is shown, and what changes it. */
export function usePlatformSearch(): [
  PlatformSearch,
  (change: { [Name in keyof PlatformSearch]: string | undefined }) => void,
] {
  const search = readSearch(useSearch({ strict: false }))
  const navigate = useNavigate()
  return [search, (change) => void navigate({ to: '.', search: readSearch({ ...search, ...change }), replace: true })]
}
