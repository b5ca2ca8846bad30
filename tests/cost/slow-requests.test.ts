import fastify from 'fastify'
import { createApp as createServer, loadConfig } from '@bureau/server'
import { sharePort } from '@bureau/platform'
import { expect, onTestFinished, test } from 'vitest'
import { soloAgency } from '../support/test-server.ts'

const FIVE_MINUTES_MS = 300_000

test('the self-hosted server gives a whole request five minutes', async () => {
  const app = await createServer({ agencies: soloAgency(), logLevel: 'silent' }, loadConfig({}))
  onTestFinished(() => app.close())

  expect(app.server.requestTimeout).toBe(FIVE_MINUTES_MS)
})

test('on a shared port, the host gives it as long as the platform', async () => {
  const host = await createServer({ agencies: soloAgency(), logLevel: 'silent' }, loadConfig({}))
  const app = fastify({ requestTimeout: FIVE_MINUTES_MS - 1 })
  onTestFinished(() => host.close())
  await sharePort(host, { app, platform: {} as never })

  expect(host.server.requestTimeout).toBe(FIVE_MINUTES_MS - 1)
})
