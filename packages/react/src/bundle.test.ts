import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { expect, test } from 'vitest'

test.each(['index.ts', 'ai-sdk.ts'])('a page loads at most 4 kB of %s beside the client and React', async (entry) => {
  const bundle = await rolldown({
    input: path.join(import.meta.dirname, entry),
    platform: 'browser',
    external: ['react', 'ai', '@bureau/client'],
  })
  const { output } = await bundle.generate({ minify: true })
  await bundle.close()

  expect(gzipSync(output[0].code, { level: 9 }).length).toBeLessThanOrEqual(4_000)
  expect(output[0].moduleIds.filter((id) => !id.includes('packages/react/src/'))).toEqual([])
  // What the AI SDK has is read as types alone.
  expect(output[0].imports.filter((name) => name === 'ai')).toEqual([])
})
