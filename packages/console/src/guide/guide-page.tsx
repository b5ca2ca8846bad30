import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { GuideContext } from '../markdown/guide-context.ts'
import { Markdown } from '../markdown/markdown.tsx'
import { isRefusal } from '../server/request.ts'
import { Empty, Page, Unread } from '../ui/page.tsx'
import { guideQuery, LIST } from './guide-queries.ts'
import { anchorOf, type GuideText, readGroups, readGuide } from './guide-text.ts'
import { GuideSearch } from './guide-search-box.tsx'

const route = getRouteApi('/guide/$')

/** The documents of this version, which the server carries: they are there without the internet. */
export function GuideHome() {
  const list = useQuery(guideQuery(LIST))
  const { data } = list
  const groups = data === undefined ? [] : readGroups(data)
  return (
    <Page title="Guide" about="The documents of this version. The server carries them.">
      <Unread of={list} />
      {groups.length > 0 && <GuideSearch pages={groups.flatMap(({ pages }) => pages.map(({ name }) => name))} />}
      <div className="mt-4 grid gap-4 lg:grid-cols-2">
        {groups.map(({ title, pages }) => (
          <section key={title} className="card p-4">
            <h2 className="mb-2 font-semibold">{title}</h2>
            <ul className="flex flex-col gap-1.5 text-[13px]">
              {pages.map((page) => (
                <li key={page.name}>
                  <Link to="/guide/$" params={{ _splat: page.name }} className="font-medium link">
                    {page.title}
                  </Link>{' '}
                  <span className="text-soft">{page.about.replaceAll('`', '')}</span>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </Page>
  )
}

export function GuidePage() {
  const { _splat: name = LIST } = route.useParams()
  const { at } = route.useSearch()
  const text = useQuery(guideQuery(name))
  const { data } = text
  const page = data === undefined ? undefined : readGuide(data, name)
  useEffect(() => {
    if (page) document.getElementById(at ?? '')?.scrollIntoView()
  }, [page?.title, at])
  const home = (
    <Link to="/guide" className="link">
      Guide
    </Link>
  )
  if (isRefusal(text.error, 404))
    return (
      <Page title="Guide" about={home}>
        <Empty icon="file" title="There is no such page in the guide." />
      </Page>
    )
  return (
    <Page title={page?.title ?? 'Guide'} about={home}>
      <Unread of={text} />
      {page && <Text key={name} name={name} page={page} />}
    </Page>
  )
}

function Text({ name, page }: { readonly name: string; readonly page: GuideText }) {
  return (
    <div className="max-w-3xl">
      <GuideContext value={{ addressOf: (href) => addressOf(href, name), anchorOf }}>
        <Markdown text={page.text} />
      </GuideContext>
    </div>
  )
}

/** Where a link of a page leads within the console; undefined: elsewhere. */
function addressOf(href: string, from: string): string | undefined {
  if (/^[a-z]+:/i.test(href) || href.startsWith('/')) return undefined
  const [target = '', anchor = ''] = href.split('#')
  const name = target === '' ? from : new URL(target, `file:///${from}`).pathname.slice(1)
  return `#/guide/${name}${anchor === '' ? '' : `?at=${encodeURIComponent(anchor)}`}`
}
