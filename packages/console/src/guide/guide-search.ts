import MiniSearch from 'minisearch'
import { anchorOf, readGuide } from './guide-text.ts'

/** A section of a page that was found. */
export type Found = {
  readonly id: string
  readonly name: string
  readonly title: string
  readonly heading: string
  readonly anchor: string
  readonly text: string
}

const MAX_FOUND = 20

/** An index of the sections of pages, by their names and sources. */
export function indexOf(pages: readonly (readonly [name: string, source: string])[]): MiniSearch<Found> {
  const index = new MiniSearch<Found>({
    fields: ['title', 'heading', 'text'],
    storeFields: ['name', 'title', 'heading', 'anchor', 'text'],
    searchOptions: { prefix: true, fuzzy: 0.15, combineWith: 'AND', boost: { title: 3, heading: 2 } },
  })
  index.addAll(pages.flatMap(([name, source]) => sectionsOf(name, source)))
  return index
}

export const search = (index: MiniSearch<Found>, words: string): readonly Found[] =>
  index.search(words).slice(0, MAX_FOUND) as unknown as readonly Found[]

function sectionsOf(name: string, source: string): Found[] {
  const { title, text } = readGuide(source, name)
  return text.split(/^(?=#{2,4} )/m).map((part, at) => {
    const [, heading = ''] = /^#+ (.+)$/m.exec(part.startsWith('#') ? part : '') ?? []
    return { id: `${name} ${at}`, name, title, heading, anchor: anchorOf(heading), text: part.replace(/^#+ .+$/m, '') }
  })
}
