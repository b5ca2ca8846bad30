import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useDeferredValue, useState } from 'react'
import { brief } from '../ui/format.ts'
import { Failure, Loading } from '../ui/page.tsx'
import { guideQuery } from './guide-queries.ts'
import type { Found } from './guide-search.ts'

/** Finds sections of all pages. They are read once somebody searches. */
export function GuideSearch({ pages }: { readonly pages: readonly string[] }) {
  const queries = useQueryClient()
  const [text, setText] = useState('')
  const words = useDeferredValue(text.trim())
  const { data: find, error } = useQuery({
    queryKey: ['guide', 'index', pages],
    queryFn: async () => {
      const { indexOf, search } = await import('./guide-search.ts')
      const read = pages.map(async (name) => [name, await queries.fetchQuery(guideQuery(name))] as const)
      const index = indexOf(await Promise.all(read))
      return (wanted: string) => search(index, wanted)
    },
    enabled: words !== '',
    staleTime: Infinity,
  })
  return (
    <div>
      <input
        type="search"
        aria-label="Search the guide"
        className="input max-w-xl!"
        placeholder="Search the guide"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {error && <Failure error={error} />}
      {words !== '' && !find && !error && <Loading what="Reading the pages" />}
      {words !== '' && find && <Results found={find(words)} />}
    </div>
  )
}

function Results({ found }: { readonly found: readonly Found[] }) {
  if (found.length === 0) return <p className="mt-2 text-[13px] text-soft">Nothing in the guide has these words.</p>
  return (
    <ol aria-label="Found" className="card mt-2 flex max-w-3xl flex-col p-1 text-[13px]">
      {found.map(({ id, name, title, heading, anchor, text }) => (
        <li key={id}>
          <Link
            to="/guide/$"
            params={{ _splat: name }}
            search={anchor === '' ? {} : { at: anchor }}
            className="block rounded-lg px-3 py-1.5 hover:bg-hover"
          >
            <span className="font-medium">{heading === '' ? title : `${title}: ${heading}`}</span>
            <span className="block truncate text-soft">{brief(plain(text), 160)}</span>
          </Link>
        </li>
      ))}
    </ol>
  )
}

/** Without what Markdown writes between words. */
const plain = (text: string): string =>
  text
    .replaceAll(/!?\[(.*?)\]\(.*?\)/g, '$1')
    .replaceAll(/[`*|\s]+/g, ' ')
    .trim()
