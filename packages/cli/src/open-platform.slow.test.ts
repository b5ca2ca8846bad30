import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent } from '@bureau/framework'
import type { OpenPlatform } from '@bureau/platform'
import { loadConfig } from '@bureau/server'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openPlatformFor, servePlatform } from './open-platform.ts'

const host = '127.0.0.1'

/** A platform that has never been started. `credentials` is where its first key is going to be. */
async function openNew(): Promise<OpenPlatform & { readonly credentials: string }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-open-'))
  vi.stubEnv('BUREAU_DATA', folder)
  vi.stubEnv('LOG_LEVEL', 'silent')
  const agencies = { shop: new Agency({ entryPoint: new Agent({ name: 'Clerk', instructions: 'Help.' }) }) }
  const terminal = { log: { write: () => {} }, waitFor: () => () => {} }
  const opened = await openPlatformFor({ agencies }, loadConfig({}), terminal)
  onTestFinished(async () => {
    await opened.app.close()
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true, force: true })
  })
  return { ...opened, credentials: path.join(folder, 'credentials.json') }
}

test('the credentials of a first start are written before the port answers', async () => {
  const opened = await openNew()
  let wereThere: boolean | undefined
  opened.app.addHook('onListen', async () => void (wereThere = existsSync(opened.credentials)))

  const { credentials } = await servePlatform(opened.app, opened, { host, port: 0 })

  expect(wereThere).toBe(true)
  expect(JSON.parse(readFileSync(opened.credentials, 'utf8'))).toEqual(credentials)
})

test('a first start on a taken port makes no key, which nobody would see', async () => {
  const taken = createServer().listen({ host, port: 0 })
  await once(taken, 'listening')
  onTestFinished(() => void taken.close())
  const { port } = taken.address() as AddressInfo
  const opened = await openNew()

  await expect(servePlatform(opened.app, opened, { host, port })).rejects.toThrow(`Port ${port} is taken`)

  expect(existsSync(opened.credentials)).toBe(false)
})
