import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const ROOT = path.resolve(import.meta.dirname, '..')

const Component = z.looseObject({
  'bom-ref': z.string(),
  properties: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
})

const Bom = z.looseObject({
  metadata: z.looseObject({ component: z.looseObject({ name: z.string() }) }),
  components: z.array(Component),
})

const Lock = z.object({
  name: z.string(),
  packages: z.record(z.string(), z.object({ version: z.string().optional(), dev: z.boolean().default(false) })),
})

const DEVELOPMENT = 'cdx:npm:package:development'

/**
 * Writes the software bill of materials of the packages: every component of the lock file, in CycloneDX. What is used in
 * development alone is marked `cdx:npm:package:development`, and so are those of which the packages hold copies.
 *
 * @returns How many components it names.
 */
export function writeSbom(file: string): number {
  const options = ['--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only']
  const text = execFileSync('npm', ['sbom', ...options], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 64 * 1_048_576,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const bom = Bom.parse(JSON.parse(text))
  const lock = Lock.parse(JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')))
  bom.metadata.component.name = lock.name // npm takes the name of the folder
  const used = usedByPackages(lock)
  for (const component of bom.components) {
    // npm marks whatever the repository's own tests use as well.
    if (!used.has(component['bom-ref'])) continue
    component.properties = component.properties.filter(({ name }) => name !== DEVELOPMENT)
  }
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(bom, null, 2)}\n`)
  return bom.components.length
}

function usedByPackages({ packages }: z.infer<typeof Lock>): ReadonlySet<string> {
  const used = Object.entries(packages).filter(([, { dev }]) => !dev)
  return new Set(used.map(([place, { version }]) => `${place.split('node_modules/').at(-1)}@${version}`))
}
