/**
 * Builds what is published: JavaScript and declarations of every package, and proof that the packed result works.
 *
 * Each package is packed, checked by publint and attw, and imported by a plain Node outside the workspace. What all of it
 * is made of is listed in `dist/sbom.cdx.json`.
 */
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { z } from 'zod'
import { compileAndPack } from './pack.ts'
import { writeSbom } from './sbom.ts'

const ROOT = path.resolve(import.meta.dirname, '..')

/** Below node_modules, so that the unpacked packages find their dependencies; `@bureau` is found here first. */
const PACKED = path.join(ROOT, 'node_modules/.cache/bureau-packed')

const Manifest = z.object({
  name: z.string(),
  exports: z.record(z.string(), z.unknown()),
  bin: z.record(z.string(), z.string()).default({}),
})

rmSync(PACKED, { recursive: true, force: true })
for (const { name, filename, unpackedSize } of compileAndPack(PACKED, { anew: true })) {
  await lint(filename)
  unpack(name, filename)
  const internal = readManifest(name).entries.filter((entry) => !entry.isPublished)
  const excluded = internal.length > 0 ? ['--exclude-entrypoints', ...internal.map(({ path: entry }) => entry)] : []
  check(['attw', filename, '--profile', 'esm-only', '--no-emoji', '--no-color', ...excluded])
  console.log(`${name}  ${Math.ceil(unpackedSize / 1000)} kB  publint and attw pass`)
}
importEverything()
console.log(`${writeSbom(path.join(ROOT, 'dist/sbom.cdx.json'))} components in dist/sbom.cdx.json`)

type Entry = { readonly path: string; readonly isPublished: boolean }

/** The entry points of an unpacked package. What resolves for this repository alone is not part of the published one. */
function readManifest(name: string): { readonly bin: Record<string, string>; readonly entries: readonly Entry[] } {
  const file = path.join(PACKED, 'node_modules', name, 'package.json')
  const { bin, exports } = Manifest.parse(JSON.parse(readFileSync(file, 'utf8')))
  const entries = Object.entries(exports).map(([entry, target]) => ({
    path: entry,
    isPublished: typeof target === 'string' || Object.keys(target as object).includes('default'),
  }))
  return { bin, entries }
}

function unpack(name: string, tarball: string): void {
  const directory = path.join(PACKED, 'node_modules', name)
  mkdirSync(directory, { recursive: true })
  check(['tar', '-xzf', tarball, '-C', directory, '--strip-components', '1'])
}

/** Imports every entry point in one process, and runs every command once, as an installed package would. */
function importEverything(): void {
  const manifests = globSync('node_modules/@bureau/*', { cwd: PACKED }).map((folder) => {
    const name = path.posix.relative('node_modules', folder)
    return { name, ...readManifest(name) }
  })
  const entries = manifests.flatMap(({ name, entries: all }) =>
    all.filter(({ isPublished }) => isPublished).map((entry) => path.posix.join(name, entry.path)),
  )
  const program = entries.map((entry) => `await import('${entry}')`).join('\n')
  check([process.execPath, '--input-type=module', '--eval', program], PACKED)
  for (const { name, bin } of manifests) {
    for (const file of Object.values(bin)) {
      check([process.execPath, path.join('node_modules', name, file), '--help'], PACKED)
    }
  }
  console.log(`Plain Node imports ${entries.join(', ')}`)
}

/** Fails where publint finds something in a package. */
async function lint(tarball: string): Promise<void> {
  const { buffer } = new Uint8Array(readFileSync(tarball))
  const { messages, pkg } = await publint({ pack: { tarball: buffer }, strict: true })
  if (messages.length === 0) return
  console.error(messages.map((message) => formatMessage(message, pkg, { color: false })).join('\n'))
  process.exit(1)
}

/** Runs a command, silent unless it fails; then its output is shown and the build ends. */
function check([command = '', ...args]: readonly string[], cwd = ROOT): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status === 0) return
  console.error(`${[command, ...args].join(' ')} failed\n${error?.message ?? ''}${stdout}${stderr}`)
  process.exit(1)
}
