import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '../..')

type Manifest = {
  readonly name: string
  readonly private?: boolean
  readonly homepage?: string
  readonly bugs?: string
  readonly repository?: { readonly type: string; readonly url: string; readonly directory: string }
  readonly engines: { readonly node: string }
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

const published = globSync('packages/*/package.json', { cwd: ROOT })
  .map((file) => ({
    folder: path.posix.dirname(file),
    manifest: JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')) as Manifest,
  }))
  .filter(({ manifest }) => !manifest.private)

const OURS = new Set(published.map(({ manifest }) => manifest.name))

test.each(published)('$folder says where it comes from', ({ folder, manifest: { repository, homepage, bugs } }) => {
  const address = 'https://github.com/bureau-dev/bureau'

  expect(repository).toEqual({ type: 'git', url: `git+${address}.git`, directory: folder })
  expect([homepage, bugs]).toEqual([`${address}#readme`, `${address}/issues`])
})

test.each(published)('$folder takes ranges of what others publish, so that their patches reach its users', (each) => {
  const { dependencies, peerDependencies } = each.manifest
  const needed = Object.entries({ ...dependencies, ...peerDependencies }).filter(([name]) => !OURS.has(name))

  expect(needed.filter(([, range]) => /^[\d.]+$/.test(range))).toEqual([])
})

test.each(published)('$folder demands no newer Node than the packages that need it', ({ manifest }) => {
  const dependents = published.filter((each) => each.manifest.dependencies?.[manifest.name])
  const isNewerThan = (range: string) => manifest.engines.node.localeCompare(range, 'en', { numeric: true }) > 0

  const refused = dependents.filter((each) => isNewerThan(each.manifest.engines.node))

  expect(refused.map(({ folder }) => folder)).toEqual([])
})
