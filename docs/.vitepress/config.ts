import { cpSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'

/**
 * The public site: the README, these pages and what they link to, as they are, and the reference that scripts/site.ts has
 * made of the types. A link that leads nowhere fails the build.
 */

const ROOT = path.resolve(import.meta.dirname, '../..')
const PAGES = /^(?:(?:docs|reference)\/.*|examples\/README|(?!AGENTS|CLAUDE)[A-Z]+)\.md$/

/** What pages link to and is not a page. */
const FILES = ['examples/**/*', 'deploy/**/*', '.env.example', 'LICENSE']

const others = globSync('**/*.md', { cwd: ROOT, exclude: (name) => /^(?:node_modules|dist|\..+)$/.test(name) })

/** The tables of docs/README.md, which lists all pages. */
function sidebar(): object[] {
  const groups: { text: string; items: { text: string; link: string }[] }[] = []
  for (const line of readFileSync(path.join(ROOT, 'docs/README.md'), 'utf8').split('\n')) {
    const heading = /^\| (\w[^|]*) \| \|$/.exec(line)?.[1]
    const [, text, link] = /^\| \[(.+?)\]\((.+?)\.md\) \|/.exec(line) ?? []
    if (heading !== undefined) groups.push({ text: heading, items: [] })
    if (text !== undefined) groups.at(-1)!.items.push({ text, link: path.posix.join('/docs', link) })
  }
  const types = globSync('reference/*.md', { cwd: ROOT })
    .toSorted()
    .map((file) => {
      const title = /^# (.+)$/m.exec(readFileSync(path.join(ROOT, file), 'utf8'))?.[1] ?? file
      return { text: title, link: `/${file.replace(/\.md$/, '')}` }
    })
  return [
    { text: 'Getting started', link: '/docs/getting-started' },
    ...groups,
    { text: 'Types of the packages', items: types },
  ]
}

export default {
  title: 'Bureau',
  description: 'The open agent server for TypeScript: write agencies of AI agents in code, serve them over HTTP.',
  lang: 'en',
  srcDir: '..',
  srcExclude: others.filter((file) => !PAGES.test(file)),
  outDir: '../dist/site',
  cacheDir: '../node_modules/.cache/vitepress',
  rewrites: { 'README.md': 'index.md' },
  cleanUrls: true,
  // Files that are copied beside the pages.
  ignoreDeadLinks: [/\/deploy\//, 'LICENSE', './LICENSE', './agui-page', './.env'],
  themeConfig: { sidebar: sidebar(), search: { provider: 'local' }, outline: [2, 3] },
  buildEnd: ({ outDir }: { outDir: string }): void => {
    for (const file of globSync(FILES, { cwd: ROOT })) {
      cpSync(path.join(ROOT, file), path.join(outDir, file), { recursive: true })
    }
  },
}
