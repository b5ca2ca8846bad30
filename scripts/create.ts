/**
 * Makes a project from a template with the packages of this checkout, packed as they would be published.
 *
 * `npm run create -- ../my-agency`, with the options of `npm create bureau`. The project keeps the packed packages in its
 * folder `packages`: it runs without this checkout.
 */
import { spawnSync } from 'node:child_process'
import { appendFileSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createProject, CreateError } from 'create-bureau'
import { compileAndPack } from './pack.ts'

/** The packages that others depend on; npm complains of a tarball for one that the project may have and does not. */
function sharedPackages(): ReadonlySet<string> {
  const manifests = globSync(path.join(import.meta.dirname, '../packages/*/package.json'))
  return new Set(
    manifests.flatMap((file) => {
      const { dependencies = {} } = JSON.parse(readFileSync(file, 'utf8')) as { dependencies?: Record<string, string> }
      return Object.keys(dependencies)
    }),
  )
}

/** Makes the packages of a project those in the tarballs, given by name, which no registry needs to have. */
export function useTarballs(project: string, tarballs: ReadonlyMap<string, string>): void {
  const file = path.join(project, 'package.json')
  const manifest = JSON.parse(readFileSync(file, 'utf8'))
  const { dependencies } = manifest as { dependencies: Record<string, string> }
  const overrides: Record<string, string> = {}
  const shared = sharedPackages()
  for (const [name, tarball] of tarballs) {
    const isOwn = name in dependencies
    if (isOwn) dependencies[name] = `file:${tarball}`
    // npm refuses another text than the project's own.
    if (isOwn) overrides[name] = `$${name}`
    else if (shared.has(name)) overrides[name] = `file:${tarball}`
  }
  writeFileSync(file, `${JSON.stringify({ ...manifest, overrides }, null, 2)}\n`)
}

/** What else a project has to know when its packages are in its folder: how to build its image, and how to add one of them. */
export function explainTarballs(project: string, tarballs: ReadonlyMap<string, string>): void {
  const dockerfile = path.join(project, 'Dockerfile')
  const manifests = 'COPY package*.json ./\n'
  const text = readFileSync(dockerfile, 'utf8')
  writeFileSync(dockerfile, text.replace(manifests, `${manifests}COPY packages ./packages\n`))
  const { dependencies } = JSON.parse(readFileSync(path.join(project, 'package.json'), 'utf8'))
  const lacksPlatform = '@bureau/cli' in dependencies && !('@bureau/platform' in dependencies)
  const [example, use] = lacksPlatform
    ? [tarballs.get('@bureau/platform'), 'the platform, for `npx bureau start`']
    : [tarballs.get('@bureau/client'), 'the client']
  // By its name npm refuses a package that the overrides have.
  const adding = ` Add one of them by its file: \`npm install ./${example}\` adds ${use}.`
  appendFileSync(
    path.join(project, 'README.md'),
    `\nThe packages of Bureau are in \`packages\`, made from a checkout; no registry is asked for them.${adding}\n`,
  )
}

/** @throws CreateError */
function installPacked({ folder }: { readonly folder: string }): void {
  console.log('Packing and installing, which takes a minute …')
  const packed = compileAndPack(path.join(folder, 'packages'))
  const tarballs = new Map(packed.map(({ name, filename }) => [name, path.relative(folder, filename)]))
  useTarballs(folder, tarballs)
  explainTarballs(folder, tarballs)
  const { status } = spawnSync('npm', ['install'], { cwd: folder, stdio: 'inherit' })
  if (status !== 0) throw new CreateError(`npm install failed. The project is complete: run it again in ${folder}.`)
}

if (import.meta.main) {
  process.chdir(process.env['INIT_CWD'] ?? '.') // npm runs scripts at the root of the checkout
  try {
    // The packed packages are installed by npm's overrides.
    await createProject([...process.argv.slice(2), '--package-manager', 'npm'], {
      command: 'npm run create --',
      install: installPacked,
    })
  } catch (error) {
    if (!(error instanceof CreateError)) throw error
    console.error(error.message)
    process.exitCode = 1
  }
}
