import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type OutputChunk, rolldown } from 'rolldown'
import { z } from 'zod'

const ROOT = path.resolve(import.meta.dirname, '..')
const SDK = path.join(ROOT, 'node_modules/@openai/agents-core')

/** Entry points of the SDK that the framework imports, by the name of their file in the destination. */
const ENTRIES: Readonly<Record<string, string>> = { index: '.', testing: './testing' }

/** What the application and other packages of ours use too stays a dependency; the last is used if it is there. */
const NOT_BUNDLED = [/^node:/, /^zod(\/|$)/, /^@modelcontextprotocol\//, 'supports-color']

const Declared = z.union([z.object({ types: z.string() }), z.object({ node: z.object({ types: z.string() }) })])
const Manifest = z.object({ version: z.string(), exports: z.record(z.string(), Declared) })

type Exports = z.infer<typeof Manifest>['exports']

/**
 * Puts the agents SDK into the published framework: its code and what that uses of other packages in a few files, its
 * declarations, the licences. As a dependency it would bring 48 MB along, most of it for two functions of one of its
 * own dependencies.
 *
 * `destination` becomes the folder that `#agents-core` in the `package.json` of the framework names.
 */
export async function bundleAgentsCore(destination: string): Promise<void> {
  const manifest = Manifest.parse(JSON.parse(readFileSync(path.join(SDK, 'package.json'), 'utf8')))
  const entries = Object.entries(ENTRIES)
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map(([file, entry]) => [file, path.posix.join('@openai/agents-core', entry)])),
    platform: 'node',
    external: NOT_BUNDLED,
    cwd: ROOT,
  })
  const { output } = await bundle.write({
    dir: path.join(destination, 'bundled'),
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'chunk-[hash].js',
  })
  const chunks = output.filter((file) => file.type === 'chunk')
  for (const chunk of chunks.filter(({ isEntry }) => isEntry)) writeSelection(destination, chunk, manifest.version)
  copyDeclarations(path.join(destination, 'types'), manifest.exports)
  copyLicences(path.join(destination, 'licences'), chunks)
}

/** A module that exports what one entry point does, from whichever copy of the SDK the process uses. */
function writeSelection(destination: string, { name, exports }: OutputChunk, version: string): void {
  const wanted = `{ bundled, version: '${version}', entry: '${ENTRIES[name]}' }`
  const lines = [
    "import { fileURLToPath } from 'node:url'",
    "import { loadAgentsCore } from '../load-agents-core.js'",
    `const bundled = fileURLToPath(new URL('bundled/${name}.js', import.meta.url))`,
    `export const { ${exports.join(', ')} } = loadAgentsCore(${wanted})`,
  ]
  writeFileSync(path.join(destination, `${name}.js`), `${lines.join('\n')}\n`)
}

/** They name each other by path, no longer by the package, and are CommonJS, as where they come from. */
function copyDeclarations(destination: string, exports: Exports): void {
  for (const file of globSync('dist/**/*.d.ts', { cwd: SDK })) {
    const pathTo = (entry: string): string => {
      const relative = path.relative(path.dirname(file), typesOf(exports, entry)).replace(/\.d\.ts$/, '')
      return relative.startsWith('.') ? relative : `./${relative}`
    }
    const target = path.join(destination, path.relative('dist', file))
    const text = readFileSync(path.join(SDK, file), 'utf8')
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(
      target,
      text.replaceAll(/'@openai\/agents-core([^']*)'/g, (_, subpath) => `'${pathTo(`.${subpath}`)}'`),
    )
  }
  writeFileSync(path.join(destination, 'package.json'), '{ "type": "commonjs" }\n')
}

function typesOf(exports: Exports, entry: string): string {
  const declared = Declared.parse(exports[entry])
  return 'types' in declared ? declared.types : declared.node.types
}

/** Of every package that has code in the bundle, also of those that it contains itself. */
function copyLicences(destination: string, chunks: readonly OutputChunk[]): void {
  const files = chunks.flatMap(({ modules }) => Object.keys(modules).filter((file) => path.isAbsolute(file)))
  const folders = files.flatMap((file) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? [])
  for (const folder of new Set(folders)) {
    for (const licence of globSync('{.,src/_vendor/*}/{LICENSE,license}*', { cwd: folder })) {
      const name = path.relative(path.join(ROOT, 'node_modules'), path.resolve(folder, path.dirname(licence)))
      cpSync(path.join(folder, licence), path.join(destination, `${name.replaceAll('/', '-')}.txt`))
    }
  }
}
