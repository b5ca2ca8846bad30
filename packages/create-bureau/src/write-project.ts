import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { filesFor, forManager } from './package-managers.ts'
import { CreateError, NEEDED_NODE, type ProjectOptions, type Template } from './project-options.ts'

const TEMPLATES_FOLDER = fileURLToPath(new URL('../templates', import.meta.url))

/** What npm leaves out of packages, or takes for its own, has another name there. */
const RENAMED = /(^|\/)_(?=[^/]+$)/

type Manifest = {
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

/**
 * Writes the files of a project and replaces none. Answers how many there are.
 *
 * @throws CreateError one of them exists, or the folder cannot be written to; nothing was written then.
 */
export function writeProject(project: ProjectOptions, version: string): number {
  const { folder, template, packageManager } = project
  const files = new Map([
    ...filesOf('common', project),
    // Those of its own take the place of common ones.
    ...filesOf(template, project),
    ...filesFor(packageManager),
    ['package.json', manifestText(project, version)],
  ])
  const known = [...files.keys()].filter((file) => existsSync(path.join(folder, file)))
  if (known.length > 0) {
    throw new CreateError(`${folder} has ${known.join(', ')} already. Choose another folder: nothing is replaced.`)
  }
  try {
    for (const [file, text] of files) {
      const target = path.join(folder, file)
      makeFolder(path.dirname(target))
      writeFileSync(target, text, { mode: file === '.env' ? 0o600 : 0o644 })
    }
  } catch (error) {
    throw new CreateError(`${folder} cannot be written to: ${(error as NodeJS.ErrnoException).code}.`, { cause: error })
  }
  return files.size
}

/** `recursive` of Node never returns where a file system refuses new folders with ENOENT, as `/proc` does. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return
  makeFolder(path.dirname(folder))
  mkdirSync(folder)
}

function filesOf(folder: string, { name, packageManager }: ProjectOptions): [string, string][] {
  const from = path.join(TEMPLATES_FOLDER, folder)
  const entries = readdirSync(from, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const names = entries.map((entry) =>
    path.relative(from, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'),
  )
  return names.map((file) => [
    file.replace(RENAMED, '$1.'),
    forManager(readFileSync(path.join(from, file), 'utf8').replaceAll('{{name}}', name), packageManager),
  ])
}

function manifestText({ name, template, packageManager: manager }: ProjectOptions, version: string): string {
  const { scripts, dependencies, devDependencies } = manifestOf(template, `^${version}`)
  const manifest = {
    name,
    version: '0.1.0',
    private: true,
    type: 'module',
    engines: { node: `>=${NEEDED_NODE}` },
    // What corepack takes in the image.
    ...(/pnpm|yarn/.test(manager.name) && manager.version && { packageManager: `${manager.name}@${manager.version}` }),
    scripts,
    dependencies,
    devDependencies,
  }
  return `${JSON.stringify(manifest, null, 2)}\n`
}

const COMMON: Manifest = {
  scripts: {
    dev: 'bureau dev',
    start: 'bureau serve',
    test: 'node check-node.mjs && node --test',
    types: 'tsc --noEmit',
  },
  dependencies: { zod: '^4.6.7' },
  devDependencies: { '@types/node': '^24.19.2', typescript: '^7.0.2' },
}

function manifestOf(template: Template, ours: string): Manifest {
  const { scripts, dependencies, devDependencies } = COMMON
  const served = { '@bureau/cli': ours, '@bureau/framework': ours, ...dependencies }
  switch (template) {
    case 'minimal':
    case 'handoffs':
      return { ...COMMON, dependencies: served }
    case 'tools':
      return { ...COMMON, dependencies: { ...served, '@modelcontextprotocol/server': '^2.4.0' } }
    case 'platform':
      return {
        scripts: { ...scripts, dev: 'bureau dev --platform', start: 'bureau start' },
        dependencies: { ...served, '@bureau/platform': ours },
        devDependencies,
      }
    case 'nextjs':
      return {
        scripts: { ...scripts, dev: 'next dev', build: 'next build', start: 'next start' },
        dependencies: {
          '@bureau/client': ours,
          '@bureau/framework': ours,
          '@bureau/react': ours,
          '@bureau/server': ours,
          next: '^16.4.3',
          react: '^19.3.1',
          'react-dom': '^19.3.1',
          ...dependencies,
        },
        devDependencies: { ...devDependencies, '@types/react': '^19.3.0', '@types/react-dom': '^19.3.0' },
      }
  }
}
