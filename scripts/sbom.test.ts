import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { writeSbom } from './sbom.ts'

type Component = {
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly properties: readonly { readonly name: string; readonly value: string }[]
}

test('the bill of materials names what the packages use and hold, by the versions of the lock file', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-sbom-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'dist/sbom.cdx.json')

  const count = writeSbom(file)

  const bom = JSON.parse(readFileSync(file, 'utf8'))
  const components = bom.components as readonly Component[]
  const lock = JSON.parse(readFileSync(path.join(import.meta.dirname, '../package-lock.json'), 'utf8'))
  expect([bom.bomFormat, bom.metadata.component.name, components.length]).toEqual(['CycloneDX', 'bureau', count])
  for (const name of ['fastify', 'zod', 'pg', '@electric-sql/pglite', '@openai/agents-core', 'swagger-ui-dist']) {
    const { version } = lock.packages[`node_modules/${name}`]
    const found = components.find((each) => each.purl === `pkg:npm/${name.replace('@', '%40')}@${version}`)
    expect([name, found?.version]).toEqual([name, version])
  }
  const isDevelopment = (name: string): boolean => {
    const purl = `pkg:npm/${name}@${lock.packages[`node_modules/${name}`].version}`
    const { properties } = components.find((each) => each.purl === purl)!
    return properties.some(({ name: property }) => property === 'cdx:npm:package:development')
  }
  expect(['fastify', 'zod', 'vitest'].map(isDevelopment)).toEqual([false, false, true])
})
