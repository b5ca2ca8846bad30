import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { expect, test } from 'vitest'

const ENTRY = path.join(import.meta.dirname, 'index.ts')

async function bundled(program: string): Promise<{ readonly code: string; readonly modules: readonly string[] }> {
  const bundle = await rolldown({
    input: 'entry',
    platform: 'browser',
    resolve: { conditionNames: ['@bureau/source', 'import', 'default'] },
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === 'entry' ? id : null),
        load: (id) => (id === 'entry' ? program : null),
      },
    ],
  })
  const { output } = await bundle.generate({ minify: true })
  await bundle.close()
  return { code: output[0].code, modules: output[0].moduleIds }
}

test.each([
  ['a page loads at most 7.3 kB of it', 'export { BureauError, createClient, partsOf }', 7_300],
  ['all of it is at most 8 kB', 'export *', 8_000],
])('%s, with nothing but its own code and the parser of events', async (_title, exported, limit) => {
  const { code, modules } = await bundled(`${exported} from ${JSON.stringify(ENTRY)}`)

  expect(gzipSync(code, { level: 9 }).length).toBeLessThanOrEqual(limit)
  expect(modules.filter((id) => !/packages\/client\/src\/|protocol\/src\/sse\.ts$|^entry$/.test(id))).toEqual([])
  expect(code).not.toContain('node:')
})

test('what a page does not use is not loaded', async () => {
  const { code } = await bundled(`import { BureauError } from ${JSON.stringify(ENTRY)}; console.log(BureauError)`)

  expect(code.length).toBeLessThan(1_000)
})
