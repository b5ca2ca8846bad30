import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { dropExpiredUploads, measureMounts, removeLeftovers } from '@bureau/platform/testing'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { PNG } from '../support/file-server.ts'
import { text, toolCall } from '../support/fake-provider.ts'
import { ACCESS_KEY, fail, REGION, SECRET_KEY, type S3Server, startS3Server } from '../support/s3-server.ts'
import { closeAfterTest } from '../support/test-server.ts'
import type { TestClient } from './support/test-client.ts'
import { ENGINES, type Served, startPlatform } from './support/test-platform.ts'

const REPORT = 'city,visitors\nParis,40\nRome,25\n'
const DAY_MS = 24 * 60 * 60_000

let bucket: S3Server
beforeEach(async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', ACCESS_KEY)
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', SECRET_KEY)
  bucket = await startS3Server()
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await bucket[Symbol.asyncDispose]()
})

type Options = NonNullable<Parameters<typeof startPlatform>[1]>

async function start(options: Options = {}): Promise<Served> {
  const filesUrl = `s3://${bucket.bucket}/bureau?endpoint=${bucket.endpoint}&region=${REGION}`
  const served = await startPlatform('postgres', { ...options, config: { ...options.config, filesUrl } })
  closeAfterTest(() => served.close())
  return served
}

/** Another process of the installation, with a data folder of its own: nothing but the records and the bucket is shared. */
async function startBeside(first: Served): Promise<Served> {
  const dataFolder = await mkdtemp(path.join(tmpdir(), 'bureau-beside-'))
  closeAfterTest(() => rm(dataFolder, { recursive: true, force: true }))
  return start({ beside: { ...first.shared, dataFolder } })
}

async function announce(client: TestClient, size = REPORT.length) {
  const body = { apiIntegrationId: client.integrationId, name: 'report.csv', size }
  const { body: upload } = await client.post('/create_agency_upload', body)
  const { pathname, search } = new URL(upload.uploadUrl)
  return { path: upload.path as string, uploadId: upload.uploadId as string, place: pathname + search }
}

const sendPart = (client: TestClient, place: string, part: string, offset: number) =>
  client.call('PATCH', place, part, {
    headers: { 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) },
  })

const contentOf = (client: TestClient, file: string) =>
  client.get(`/v1/integrations/${client.integrationId}/files/content?path=${encodeURIComponent(file)}`)

describe.skipIf(!ENGINES.includes('postgres'))('files in a bucket', () => {
  test('two processes that share no disk serve the same files', async () => {
    const first = await start()
    const second = await startBeside(first)
    const here = await first.client()
    const there = here.with({ url: second.url })

    const { path: file, place } = await announce(here)
    expect((await sendPart(here, place, REPORT.slice(0, 10), 0)).status).toBe(204)
    expect((await sendPart(there, place, REPORT.slice(10), 10)).status).toBe(204)

    expect((await contentOf(here, file)).text).toBe(REPORT)
    expect((await contentOf(there, file)).text).toBe(REPORT)
    second.provider.script([toolCall('read_file', { path: file }), text('Paris has 40 visitors.')])
    expect((await there.completeWhole({ message: 'Sum up the report' })).stream.spoken).toBe('Paris has 40 visitors.')
    expect(second.provider.modelRequests.at(-1)!.toolOutputs[0]?.output).toContain('Paris,40')

    const files = `/v1/integrations/${here.integrationId}/files`
    expect((await there.call('DELETE', `${files}?path=${encodeURIComponent(file)}`)).status).toBe(204)
    expect((await here.get(files)).body.data).toEqual([])
    expect([...bucket.objects.keys()]).toEqual([])
    expect(await readdir(first.dataFolder)).not.toContain('mounts')
  })

  test('an inline image that one process took is seen by the models of another', async () => {
    const first = await start()
    const second = await startBeside(first)
    const here = await first.client()
    const image_url = `data:image/png;base64,${PNG.toString('base64')}`

    first.provider.script([text('A dot.')])
    const attachments = [{ type: 'input_image', image_url }]
    const { stream } = await here.completeWhole({ message: 'What is it?', attachments })
    second.provider.script([text('Still a dot.')])
    const later = await here.with({ url: second.url }).completeWhole({ chatId: stream.chatId, message: 'Sure?' })

    expect(later.stream.spoken).toBe('Still a dot.')
    expect(JSON.stringify(second.provider.modelRequests.at(-1))).toContain(PNG.toString('base64'))
  })

  test('pages of a list begin where the last one ended', async () => {
    const served = await start()
    const client = await served.client()
    const paths: string[] = []
    for (let n = 0; n < 5; n++) {
      const { path: file, place } = await announce(client)
      await client.call('PUT', place, REPORT)
      paths.push(file)
    }
    const files = `/v1/integrations/${client.integrationId}/files?limit=2`
    const listed: string[] = []
    for (let cursor = ''; ;) {
      const { body } = await client.get(files + cursor)
      listed.push(...body.data.map((file: { path: string }) => file.path))
      if (!body.hasMore) break
      cursor = `&cursor=${encodeURIComponent(body.nextCursor)}`
    }
    expect(listed).toEqual(paths.toSorted())
  })

  test('a process that dies between a file and its record leaves nothing for long, and the room is free again', async () => {
    let isDead = true
    const first = await start({
      intercept: (operation) => (isDead && operation === 'completeUpload' ? new Error('killed') : undefined),
    })
    const client = await first.client()
    const { uploadId, place } = await announce(client)
    expect((await client.call('PUT', place, REPORT)).status).toBe(500)
    isDead = false
    expect(bucket.objects.size).toBe(1)

    await first.rows(`UPDATE uploads SET expires_at = now() - interval '1 second' WHERE id = '${uploadId}'`)
    await dropExpiredUploads(first.platform, null)

    expect(bucket.objects.size).toBe(0)
    const { body } = await client.get(`/v1/integrations/${client.integrationId}`)
    expect(body.storage).toMatchObject({ usedBytes: 0, fileCount: 0 })
    expect(await first.rows(`SELECT state FROM uploads WHERE id = '${uploadId}'`)).toEqual([{ state: 'expired' }])
  })

  test('the upload that a process died over is sent again and becomes the file', async () => {
    let kills = 1
    const first = await start({
      intercept: (operation) => (operation === 'completeUpload' && kills-- > 0 ? new Error('killed') : undefined),
    })
    const client = await first.client()
    const { path: file, place } = await announce(client)
    await client.call('PUT', place, REPORT)
    expect((await client.call('PUT', place, REPORT)).body).toMatchObject({ status: 'ready', size: REPORT.length })
    expect((await contentOf(client, file)).text).toBe(REPORT)
  })

  test('parts and images that nothing refers to are removed after a day, those in use are not', async () => {
    const { platform, client: newClient } = await start()
    const client = await newClient()
    const done = await announce(client)
    await client.call('PUT', done.place, REPORT)
    const pending = await announce(client)
    await sendPart(client, pending.place, 'city', 0)
    const kept = [...bucket.objects.keys()]
    const garbage = ['bureau/uploads/upl_01jold/part', `bureau/blobs/${client.ownerId}/${'ab'.repeat(32)}`]
    for (const key of garbage) {
      bucket.objects.set(key, { bytes: Buffer.from('x'), modifiedAt: new Date(Date.now() - 2 * DAY_MS) })
    }
    bucket.multiparts.set('old', { key: 'bureau/mounts/a', begunAt: new Date(0), parts: new Map() })

    await removeLeftovers(platform)

    expect([...bucket.objects.keys()]).toEqual(kept)
    expect(bucket.multiparts.size).toBe(0)
  })

  test('an image that is sent again while nothing refers to it yet stays', async () => {
    const key = `bureau/blobs/own_${'0'.repeat(26)}/${'ab'.repeat(32)}`
    const again = { bytes: Buffer.from('x'), modifiedAt: new Date() }
    const { platform } = await start({
      intercept: (operation) => void (operation === 'findReferencedBlobs' && bucket.objects.set(key, again)),
    })
    bucket.objects.set(key, { bytes: Buffer.from('x'), modifiedAt: new Date(Date.now() - 2 * DAY_MS) })

    await removeLeftovers(platform)

    expect([...bucket.objects.keys()]).toEqual([key])
  })

  test('counters that a killed deletion left behind are set right', async () => {
    const { platform, client: newClient } = await start()
    const client = await newClient()
    const { place } = await announce(client)
    await client.call('PUT', place, REPORT)
    bucket.objects.clear()
    await measureMounts(platform, null)
    const { body } = await client.get(`/v1/integrations/${client.integrationId}`)
    expect(body.storage).toMatchObject({ usedBytes: 0, fileCount: 0 })
  })

  test('while the bucket is away, files are a 503 and messages go on', async () => {
    const served = await start()
    const client = await served.client()
    const { place } = await announce(client)
    bucket.fault = (_request, response) => {
      fail(response, 403, 'AccessDenied')
      return true
    }

    const put = await client.call('PUT', place, REPORT)
    const listed = await client.get(`/v1/integrations/${client.integrationId}/files`)
    const image_url = `data:image/png;base64,${PNG.toString('base64')}`
    const refused = await client.post('/get_completion_v2', {
      apiIntegrationId: client.integrationId,
      message: 'What is it?',
      attachments: [{ type: 'input_image', image_url }],
    })
    served.provider.script([text('Hello.')])
    const { stream } = await client.completeWhole({ message: 'Hi' })

    expect([put, listed, refused].map(({ status, body }) => [status, body.code])).toEqual(
      Array.from({ length: 3 }, () => [503, 'files_unavailable']),
    )
    expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
    const said = [put.body, listed.body, refused.body].map(({ error }) => error) // ids are random, and may hold any of these
    expect(JSON.stringify(said)).not.toMatch(/bucket|credentials|AWS|s3/i)
    expect(stream.spoken).toBe('Hello.')
    bucket.fault = undefined
    expect((await client.call('PUT', place, REPORT)).status).toBe(200)
  })
})
