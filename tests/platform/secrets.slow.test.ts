import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startBureau } from '../support/bureau-process.ts'
import { startFakeProvider, status, text } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { TestClient } from './support/test-client.ts'

const SHOP = fileURLToPath(new URL('support/shop-agency.ts', import.meta.url))
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** What only the caller and the model may know. */
const SPOKEN = [
  'canary-question',
  'canary-answer',
  'canary-context',
  'canary-signature',
  'canary-upstream',
  'canary-member',
]
/** What may stand nowhere on the disk in plain text. */
const SEALED = ['canary-context', 'canary-signature']

test('neither the log at its loudest nor the files of the data folder hold what was secret', async () => {
  const provider = await startFakeProvider()
  closeAfterTest(() => provider.close())
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-secrets-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
  const env = { BUREAU_DATA: folder, OPENAI_API_KEY: 'sk-canary-provider', OPENAI_BASE_URL: provider.baseUrl }
  const bureau = await startBureau(['platform', SHOP], { ...env, LOG_LEVEL: 'trace' })
  const first = JSON.parse(readFileSync(path.join(folder, 'credentials.json'), 'utf8'))
  const owner = new TestClient({
    url: bureau.url,
    token: first.apiKey,
    ownerId: '',
    integrationId: first.apiIntegrationId,
  })
  const printed = bureau.output()

  const once = { headers: { 'idempotency-key': 'kept for a day' } }
  const key = await owner.post('/v1/api_keys', { name: 'second' }, once)
  const client = owner.with({ token: key.body.token })
  const hook = await client.post(
    '/v1/webhook_endpoints',
    {
      url: 'https://hooks.example.com/x',
      events: ['run.failed'],
    },
    once,
  )
  const upload = await client.post(
    '/create_agency_upload',
    {
      apiIntegrationId: client.integrationId,
      name: 'a.txt',
      size: 1,
    },
    once,
  )
  const uploadToken = new URL(upload.body.uploadUrl).searchParams.get('token')!
  await client.fetch('PUT', `/v1/upload_content/${upload.body.uploadId}?token=${uploadToken}`, 'x')
  provider.script([text('canary-answer'), status(401, { message: 'Incorrect API key provided: sk-canary-provider.' })])
  const request = { message: 'canary-question', user_context: { secret: 'canary-context' } }
  const inline = { type: 'input_image', image_url: `data:image/png;base64,${PNG}` }
  const { chatId } = (await client.completeWhole({ ...request, attachments: [inline] })).stream
  await client.completeWhole({ ...request, chatId })
  const signed = { type: 'input_file', file_url: 'https://nowhere.example.com/a.txt?canary-signature=2' }
  await client.completeWhole({ ...request, attachments: [signed] })
  await client.completeWhole({ ...request, usageRequestId: 7 })
  await client.completeRaw('{"message":"canary-question"')
  await client.get('/v1/chats?consumerId=canary-member')
  await client.post(`/v1/integrations/${client.integrationId}/members`, { consumerId: 'canary-member', displayName: 7 })
  await client.with({ token: `${key.body.token}x` }).get('/v1/agencies')

  bureau.child.kill('SIGTERM')
  await bureau.exited
  const logged = bureau.output().slice(printed.length)
  const tokens = [key.body.token, hook.body.secret, hook.body.secret.replace('whsec_', ''), uploadToken, first.apiKey]

  expect(logged).toContain('run ended')
  for (const secret of [...SPOKEN, ...tokens, 'sk-canary-provider', PNG]) expect(logged).not.toContain(secret)
  for (const { name, bytes } of filesBelow(folder)) {
    if (name === 'credentials.json') continue
    for (const secret of [...SEALED, ...tokens, 'sk-canary-provider']) {
      expect([name, secret, bytes.includes(secret)]).toEqual([name, secret, false])
    }
  }
})

function filesBelow(folder: string): { name: string; bytes: Buffer }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => ({ name, bytes: readFileSync(path.join(parentPath, name)) }))
}
