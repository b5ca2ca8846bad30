import { useNavigate, useSearch } from '@tanstack/react-router'
import { textsOf } from '../address-search.ts'

type PlatformSearch = ReturnType<typeof readSearch>

/** What the pages of the platform are about, in the address. */
export const readSearch = (search: Readonly<Record<string, unknown>>) =>
  textsOf(search, ['integration', 'status', 'consumer', 'group', 'days'])

/** The search of the page that is shown, and what changes it. */
export function usePlatformSearch(): [
  PlatformSearch,
  (change: { [Name in keyof PlatformSearch]: string | undefined }) => void,
] {
  const search = readSearch(useSearch({ strict: false }))
  const navigate = useNavigate()
  return [search, (change) => void navigate({ to: '.', search: readSearch({ ...search, ...change }), replace: true })]
}
