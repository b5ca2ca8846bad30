import { symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startBureau } from '../support/bureau-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

const AGENCY = `
import { Agency, Agent, tool } from '@bureau/framework'
import { z } from 'zod'

const save = async () => {
  throw new Error('the disk is full')
}
const saveNote = tool({
  name: 'save_note',
  description: 'Saves a note.',
  parameters: z.object({}),
  execute: () => {
    save()
    return 'saved'
  },
})
export const tools = [saveNote]
export const notes = new Agency({ entryPoint: new Agent({ name: 'Notes', instructions: 'Help.', tools: [saveNote] }) })
`

test('a tool that forgets an await ends no other run: what was rejected is logged with what is wrong', async () => {
  const folder = await temporaryFolder()
  symlinkSync(MODULES, path.join(folder, 'node_modules'))
  writeFileSync(path.join(folder, 'agency.ts'), AGENCY)
  const bureau = await startBureau(['serve', path.join(folder, 'agency.ts')])

  const called = await fetch(`${bureau.url}/tool/save_note`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  await expect.poll(bureau.output).toContain('a promise that nobody awaits was rejected: an await is missing')
  const later = await fetch(`${bureau.url}/healthz`)

  expect([called.status, later.status, bureau.child.exitCode]).toEqual([200, 200, null])
  expect(bureau.output()).toContain('the disk is full')
})
