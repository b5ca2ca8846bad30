/** A page of the guide: its title, and the rest of its text. */
export type GuideText = { readonly title: string; readonly text: string }

/** A group of pages in the list. */
type GuideGroup = { readonly title: string; readonly pages: readonly GuideEntry[] }

type GuideEntry = { readonly name: string; readonly title: string; readonly about: string }

/** What a page says. Of code, what stands behind its language is for those who test it. */
export function readGuide(source: string, name: string): GuideText {
  const text = name.endsWith('.md') ? source : `\`\`\`ts\n${source}\n\`\`\``
  const [, title = name] = /^# (.+)$/m.exec(text) ?? []
  return { title, text: text.replace(/^# .+$/m, '').replaceAll(/^(\s*```\w+) .*$/gm, '$1') }
}

/** The tables of the first page, each a group of links. */
export function readGroups(source: string): readonly GuideGroup[] {
  return source.split(/\n(?=\| [A-Z][^|]* \| \|\n)/).flatMap((part) => {
    const [, title] = /^\| (.+?) \| \|/.exec(part) ?? []
    const pages = [...part.matchAll(/^\| \[(.+?)\]\((.+?)\) \| (.*?) \|$/gm)].map(([, label, target, about]) => ({
      name: target!,
      title: label!,
      about: about!,
    }))
    return title === undefined || pages.length === 0 ? [] : [{ title, pages }]
  })
}

/** A heading as an anchor names it, as on the pages where the guide is written. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-')
