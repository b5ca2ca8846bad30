/**
 * Writes the public site to dist/site: every page of the documents, and a reference made of the types of the packages. A link
 * that leads nowhere fails it.
 *
 * Its generators take 150 MB, and the one of the reference needs an older compiler. So `npx` fetches them when somebody
 * builds the site, and `npm ci` does not.
 */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '..')

/** There while the site is built. */
const REFERENCE = path.join(ROOT, 'reference')

/** What programs of users import. */
const ENTRIES = [
  'framework/src/index.ts',
  'framework/src/testing.ts',
  'server/src/index.ts',
  'client/src/index.ts',
  'react/src/index.ts',
]

const TABLES = ['parametersFormat', 'interfacePropertiesFormat', 'typeAliasPropertiesFormat', 'classPropertiesFormat']

try {
  writeReference()
  npx(['vitepress@1.6.4'], ['vitepress', 'build', 'docs'])
} finally {
  rmSync(REFERENCE, { recursive: true, force: true })
}

function writeReference(): void {
  const options = ['--router', 'module', '--readme', 'none', '--hidePageHeader', '--hideBreadcrumbs', '--useCodeBlocks']
  const left = ['--excludePrivate', '--excludeExternals', '--disableSources', '--skipErrorChecking']
  const tables = [...TABLES.flatMap((name) => [`--${name}`, 'table']), '--tableColumnSettings.hideModifiers', 'true']
  const entries = ENTRIES.flatMap((entry) => ['--entryPoints', `packages/${entry}`])
  const packages = ['typedoc@0.28.20', 'typedoc-plugin-markdown@4.14.1', 'typescript@5.9.3']
  const typedoc = [
    'typedoc',
    '--plugin',
    'typedoc-plugin-markdown',
    '--tsconfig',
    'tsconfig.json',
    '--out',
    'reference',
  ]
  npx(packages, [...typedoc, ...options, ...left, ...tables, ...entries])
  for (const file of globSync('*/**/*.md', { cwd: REFERENCE })) renamePage(file)
  for (const folder of [...globSync('*/', { cwd: REFERENCE }), 'README.md']) {
    rmSync(path.join(REFERENCE, folder), { recursive: true })
  }
}

/** Moves the page of a module, below `framework/src` for instance, to the top. Its title becomes what programs import. */
function renamePage(file: string): void {
  const module = (name: string): string => name.replace('/src', '').replace(/\.md$/, '')
  const page = (name: string): string => `${module(name).replaceAll('/', '-')}.md`
  const text = readFileSync(path.join(REFERENCE, file), 'utf8')
    .replace(/^# .*$/m, `# @bureau/${module(file)}`)
    .replaceAll(
      /\]\(([^)#:]+\.md)/g,
      (_link, target: string) => `](${page(path.posix.join(path.posix.dirname(file), target))}`,
    )
  writeFileSync(path.join(REFERENCE, page(file)), text)
}

/** @throws Error the command failed; it has printed why. */
function npx(packages: readonly string[], command: readonly string[]): void {
  const fetched = packages.flatMap((name) => ['--package', name])
  const { status } = spawnSync('npx', ['--yes', ...fetched, '--', ...command], { cwd: ROOT, stdio: 'inherit' })
  if (status !== 0) throw new Error(`${command[0]} ended with ${status}`)
}
