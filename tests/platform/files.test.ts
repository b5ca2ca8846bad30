import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { dropExpiredUploads, measureMounts } from '@bureau/platform/testing'
import { describe, expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { type TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform, startPlatform } from './support/test-platform.ts'

const REPORT = 'city,visitors\nParis,40\nRome,25\n'
const sha256 = (content: string): string => createHash('sha256').update(content).digest('hex')
const OFFSET = { 'content-type': 'application/offset+octet-stream' }

/** The path and query of an upload's own address. */
const placeOf = (upload: { uploadUrl: string }): string =>
  new URL(upload.uploadUrl).pathname + new URL(upload.uploadUrl).search

async function announce(client: TestClient, content = REPORT, fields: Record<string, unknown> = {}) {
  const size = Buffer.byteLength(content)
  const body = { apiIntegrationId: client.integrationId, name: 'report.csv', size, ...fields }
  return client.post('/create_agency_upload', body)
}

describe.each(ENGINES)('files of the agency mount on %s', (engine) => {
  const platform = servePlatform(engine)
  const nobody = async (): Promise<TestClient> => (await platform.client()).with({ token: '' })

  test('a file is announced, sent, read by an agent, listed, downloaded and deleted', async () => {
    const client = await platform.client()
    const announced = await announce(client)
    expect(announced.status).toBe(200)
    expect(announced.body).toMatchObject({ name: 'report.csv', method: 'PUT', maxBytes: 31, status: 'pending' })
    const { path } = announced.body
    expect(path).toMatch(/^\/app\/mnt\/uploads\/[0-9a-z]{26}\/report\.csv$/)

    const stored = await (
      await nobody()
    ).call('PUT', placeOf(announced.body), REPORT, { headers: { 'content-type': 'text/csv' } })
    expect(stored.status).toBe(200)
    expect(stored.body).toEqual({
      uploadId: announced.body.uploadId,
      path,
      name: 'report.csv',
      size: 31,
      sha256: sha256(REPORT),
      status: 'ready',
    })

    platform.provider.script([toolCall('read_file', { path }), text('Paris has 40 visitors.')])
    const { stream } = await client.completeWhole({ message: 'Sum up', sandboxFiles: [{ name: 'report.csv', path }] })
    expect(stream.spoken).toBe('Paris has 40 visitors.')
    const [asked, answered] = platform.provider.modelRequests.slice(-2)
    expect(asked!.instructions).toContain(path)
    expect(answered!.toolOutputs[0]?.output).toContain('Paris,40')

    const files = `/v1/integrations/${client.integrationId}/files`
    const listed = await client.get(`${files}?prefix=/app/mnt/uploads/`)
    expect(listed.body.data).toEqual([{ path, name: 'report.csv', size: 31, modifiedAt: expect.stringMatching(/Z$/) }])
    const integration = await client.get(`/v1/integrations/${client.integrationId}`)
    expect(integration.body.storage).toMatchObject({ usedBytes: 31, fileCount: 1 })

    const downloaded = await client.get(`${files}/content?path=${encodeURIComponent(path)}`)
    expect(downloaded.text).toBe(REPORT)
    expect(downloaded.headers.get('content-type')).toBe('application/octet-stream')
    expect(downloaded.headers.get('content-disposition')).toContain('attachment')
    expect(downloaded.headers.get('x-content-type-options')).toBe('nosniff')
    expect(downloaded.headers.get('content-security-policy')).toBe('sandbox')

    const remove = () => client.call('DELETE', `${files}?path=${encodeURIComponent(path)}`)
    expect([(await remove()).status, (await remove()).status]).toEqual([204, 204])
    expect((await client.get(`${files}/content?path=${encodeURIComponent(path)}`)).body.code).toBe('file_not_found')
  })

  test('a message may be its files alone', async () => {
    const client = await platform.client()
    const { body } = await announce(client)
    await (await nobody()).fetch('PUT', placeOf(body), REPORT)
    platform.provider.script([text('Seen.'), text('Again.')])

    const { stream } = await client.completeWhole({
      message: '',
      sandboxFiles: [{ name: 'report.csv', path: body.path }],
    })
    const later = await client.completeWhole({ chatId: stream.chatId, message: 'And?' })

    expect(stream.result.status).toBe('completed')
    expect(platform.provider.modelRequests.at(-2)!.instructions).toContain(body.path)
    expect(later.stream.result.status).toBe('completed')
  })

  test('a file may come in parts, and be asked how far it got', async () => {
    const client = await platform.client()
    const { body } = await announce(client)
    const anyone = await nobody()
    const send = (part: string, offset: number) =>
      anyone.call('PATCH', placeOf(body), part, { headers: { ...OFFSET, 'upload-offset': String(offset) } })

    expect((await send(REPORT.slice(0, 10), 0)).headers.get('upload-offset')).toBe('10')
    const asked = await anyone.fetch('HEAD', placeOf(body))
    expect([asked.status, asked.headers.get('upload-offset'), asked.headers.get('upload-length')]).toEqual([
      200,
      '10',
      '31',
    ])
    expect((await send('x', 0)).body.code).toBe('upload_offset_mismatch')
    expect((await send('x', 11)).body.code).toBe('upload_offset_mismatch')
    expect((await send(REPORT.slice(10), 10)).status).toBe(204)

    const files = `/v1/integrations/${client.integrationId}/files`
    const downloaded = await client.get(`${files}/content?path=${encodeURIComponent(body.path)}`)
    expect(downloaded.text).toBe(REPORT)
  })

  test('410 when the integration is gone, however the content is sent: nobody could reach the file', async () => {
    const client = await platform.client()
    const { body } = await announce(client)
    const anyone = await nobody()
    const part = { ...OFFSET, 'upload-offset': '0' }
    await client.call('DELETE', `/v1/integrations/${client.integrationId}`)

    expect((await anyone.call('PUT', placeOf(body), REPORT)).body.code).toBe('upload_expired')
    expect((await anyone.call('PATCH', placeOf(body), REPORT, { headers: part })).body.code).toBe('upload_expired')
    expect((await anyone.fetch('HEAD', placeOf(body))).status).toBe(410)
  })

  test('400 for names with a path and for sizes beyond the limit', async () => {
    const client = await platform.client()

    for (const name of ['../x', 'a/b', 'a\\b', '..', '', 'a\nb']) {
      expect((await announce(client, REPORT, { name })).body).toMatchObject({ code: 'invalid_file_name' })
    }
    expect((await announce(client, REPORT, { size: 200 * 1024 ** 2 })).body).toMatchObject({ code: 'file_too_large' })
    expect((await announce(client, REPORT, { size: -1 })).status).toBe(400)
    expect((await announce(client, REPORT, { size: '31' })).status).toBe(400)
  })

  test('404 for an integration of somebody else, as for one that is not there', async () => {
    const [client, other] = [await platform.client(), await platform.client()]

    const foreign = await announce(client, REPORT, { apiIntegrationId: other.integrationId })
    const missing = await announce(client, REPORT, { apiIntegrationId: 'int_00000000000000000000000000' })

    expect([foreign.status, foreign.body.code]).toEqual([404, 'integration_not_found'])
    expect([missing.status, missing.body.code]).toEqual([404, 'integration_not_found'])
  })

  test('507 when the storage is full', async () => {
    const client = await platform.client({ storageQuotaBytes: 100 })

    const answers = await Promise.all(Array.from({ length: 8 }, () => announce(client)))

    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(answers.filter(({ body }) => body.code === 'storage_quota_exceeded')).toHaveLength(5)
  })

  test('409 when the integration has no storage', async () => {
    const client = await platform.client({ storageQuotaBytes: 0 })

    expect((await announce(client)).body.code).toBe('storage_not_enabled')
  })

  test('401 without the token of the upload, 413 beyond its size, 422 for other content', async () => {
    const client = await platform.client()
    const { body } = await announce(client, REPORT, { sha256: sha256(REPORT) })
    const anyone = await nobody()
    const put = (place: string, content: string) =>
      anyone.call('PUT', place, content, { headers: { 'content-type': 'text/csv' } })
    const place = placeOf(body)

    const apiKey = `${place.split('=')[0]}=${client.token}`
    for (const wrong of [place.split('?')[0]!, `${place}x`, place.replace('upl_', 'upl_0'), apiKey]) {
      const refused = await put(wrong, REPORT)
      expect([refused.status, refused.body.code]).toEqual([401, 'invalid_upload_token'])
    }
    expect((await put(place, `${REPORT}more`)).status).toBe(413)
    expect((await put(place, REPORT.replace('40', '41'))).body.code).toBe('checksum_mismatch')
    expect((await put(place, REPORT)).status).toBe(200)
  })

  test('409 for anything that is sent to a finished upload; its content stays, and HEAD says that it is whole', async () => {
    const client = await platform.client()
    const { body } = await announce(client)
    const anyone = await nobody()
    const put = (content: string) =>
      anyone.call('PUT', placeOf(body), content, { headers: { 'content-type': 'text/csv' } })
    expect((await put(REPORT)).status).toBe(200)

    const headers = { ...OFFSET, 'upload-offset': '31' }
    const again = [await put(REPORT), await put('other'), await anyone.call('PATCH', placeOf(body), '', { headers })]
    const head = await anyone.fetch('HEAD', placeOf(body))
    const file = `/v1/integrations/${client.integrationId}/files/content?path=${encodeURIComponent(body.path)}`

    for (const answer of again) expect([answer.status, answer.body.code]).toEqual([409, 'upload_complete'])
    expect([head.status, head.headers.get('upload-offset')]).toEqual([200, '31'])
    expect((await client.get(file)).text).toBe(REPORT)
  })

  test('of many that send an upload at the same moment one is taken, and the file is what that one sent', async () => {
    const client = await platform.client()
    const { body } = await announce(client)
    const anyone = await nobody()
    const contents = Array.from({ length: 6 }, (_, n) => REPORT.replace('40', String(41 + n)))

    const answers = await Promise.all(
      contents.map((content) =>
        anyone.call('PUT', placeOf(body), content, { headers: { 'content-type': 'text/csv' } }),
      ),
    )
    const file = `/v1/integrations/${client.integrationId}/files/content?path=${encodeURIComponent(body.path)}`
    const stored = (await client.get(file)).text

    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409, 409, 409, 409])
    const taken = answers.findIndex(({ status }) => status === 200)
    expect([stored, sha256(stored)]).toEqual([contents[taken], answers[taken]!.body.sha256])
  })

  test('410 once the hour of an upload is over, and its room is free again', async () => {
    const client = await platform.client({ storageQuotaBytes: 40 })
    const { body } = await announce(client)
    await platform.rows(`UPDATE uploads SET expires_at = now() - interval '1 second' WHERE id = '${body.uploadId}'`)

    const late = await (await nobody()).call('PUT', placeOf(body), REPORT, { headers: { 'content-type': 'text/csv' } })
    await dropExpiredUploads(platform.platform, null)

    expect([late.status, late.body.code]).toEqual([410, 'upload_expired'])
    expect((await announce(client)).status).toBe(200)
  })

  test('507 for more files than a mount may have, however small', async () => {
    const client = await platform.client()
    await announce(client)
    await platform.rows(`UPDATE mount_usage SET file_count = 99999 WHERE integration_id = '${client.integrationId}'`)

    expect((await announce(client, '')).body.code).toBe('storage_quota_exceeded')
  })

  test('an upload is for its own place: no other upload, no part beyond its size, no file twice', async () => {
    const client = await platform.client()
    const [one, two] = [(await announce(client)).body, (await announce(client)).body]
    const anyone = await nobody()
    const headers = { ...OFFSET, 'upload-offset': '0' }

    const crossed = await anyone.call('PATCH', placeOf(one).replace(one.uploadId, two.uploadId), REPORT, { headers })
    const beyond = await anyone.call('PATCH', placeOf(one), `${REPORT}more`, { headers })
    for (const offset of ['', '-1', '1e0', '0x0', '99999999999999']) {
      const refused = await anyone.call('PATCH', placeOf(one), 'x', { headers: { ...OFFSET, 'upload-offset': offset } })
      expect(refused.body.code).toBe('upload_offset_mismatch')
    }

    expect(crossed.body.code).toBe('invalid_upload_token')
    expect(beyond.status).toBe(413)
    expect(two.path).not.toBe(one.path)
  })

  test.each([
    ['another root', { path: '/app/mnt2/x', name: 'x' }, 'invalid_sandbox_file'],
    ['dot segments', { path: '/app/mnt/../etc/passwd', name: 'passwd' }, 'invalid_sandbox_file'],
    ['another name', { path: '/app/mnt/uploads/x.csv', name: 'y.csv' }, 'invalid_sandbox_file'],
    ['a backslash', { path: '/app/mnt/a\\b', name: 'a\\b' }, 'invalid_sandbox_file'],
    ['no file of that name', { path: '/app/mnt/uploads/x.csv', name: 'x.csv' }, 'sandbox_file_not_found'],
    ['a literal percent name', { path: '/app/mnt/%2e%2e/passwd', name: 'passwd' }, 'sandbox_file_not_found'],
  ])('400 for sandboxFiles with %s', async (_name, file, code) => {
    const client = await platform.client()

    const answer = await client.completeWhole({ sandboxFiles: [file] })

    expect([answer.status, answer.body.code]).toEqual([400, code])
    expect(answer.headers.get('x-agent-run-admitted')).toBe('false')
  })

  test('a name may be written in the way of macOS, an accent after its letter', async () => {
    const client = await platform.client()
    const name = 'U\u0308bersicht.csv'
    const { body } = await announce(client, REPORT, { name })
    await (await nobody()).call('PUT', placeOf(body), REPORT, { headers: { 'content-type': 'text/csv' } })
    platform.provider.respond(() => text('Read.'))

    const { stream } = await client.completeWhole({ sandboxFiles: [{ name, path: body.path }] })

    expect(body.name).toBe('Übersicht.csv')
    expect(stream.result.status).toBe('completed')
  })

  test('400 names the sandboxFiles that are not there, and no others', async () => {
    const client = await platform.client()
    const { body: there } = await announce(client)
    await (await nobody()).call('PUT', placeOf(there), REPORT, { headers: { 'content-type': 'text/csv' } })
    const fileAt = (path: string) => ({ path, name: path.slice(path.lastIndexOf('/') + 1) })
    const gone = ['/app/mnt/gone.csv', '/app/mnt/uploads/gone too.csv']

    const answer = await client.completeWhole({ sandboxFiles: [there.path, ...gone].map(fileAt) })

    expect(answer.status).toBe(400)
    expect(answer.body.error).toBe(`There is no such file in the agency mount: ${gone.join(', ')}`)
  })
})

describe.each(ENGINES)('a mount that cannot be used, on %s', (engine) => {
  /** A tenant whose mount is no folder, another one behind it, and the tenants that the log has named so far. */
  async function start() {
    const named: unknown[] = []
    const logDestination = { write: (line: string) => void named.push((JSON.parse(line) as TestClient).integrationId) }
    const platform = await startPlatform(engine, { logLevel: 'warn', logDestination })
    closeAfterTest(() => platform.close())
    const [broken, other] = [await platform.client(), await platform.client()]
    const folderOf = ({ ownerId, integrationId }: TestClient): string =>
      path.join(platform.dataFolder, 'mounts', ownerId, integrationId)
    await mkdir(path.dirname(folderOf(broken)), { recursive: true })
    await writeFile(folderOf(broken), 'not a folder')
    return { platform, broken, other, folderOf, named }
  }

  test('is logged, and the others are measured', async () => {
    const { platform, broken, other, folderOf, named } = await start()
    await mkdir(folderOf(other), { recursive: true })
    await writeFile(path.join(folderOf(other), 'made by an agent'), '12345')

    expect(await measureMounts(platform.platform, null)).toBeNull()

    const { body } = await other.get(`/v1/integrations/${other.integrationId}`)
    expect(body.storage).toMatchObject({ usedBytes: 5, fileCount: 1 })
    expect(named).toContain(broken.integrationId)
  })

  test('is logged, and the uploads of the others expire before its own are tried again', async () => {
    const { platform, broken, other, named } = await start()
    await platform.rows(`INSERT INTO uploads (id, owner_id, integration_id, name, path, declared_bytes, token_hash, expires_at)
      SELECT 'upl_00' || n, '${broken.ownerId}', '${broken.integrationId}', 'a', '/app/mnt/uploads/' || n || '/a', 1, 'x',
        now() - interval '1 hour' FROM generate_series(1, 500) n`)
    const { body } = await announce(other)
    await platform.rows(`UPDATE uploads SET expires_at = now() - interval '1 hour' WHERE id = '${body.uploadId}'`)

    const position = await dropExpiredUploads(platform.platform, null)
    expect(await dropExpiredUploads(platform.platform, position)).toBeNull()

    expect(await platform.rows("SELECT id FROM uploads WHERE state = 'expired'")).toEqual([{ id: body.uploadId }])
    expect(named).toContain(broken.integrationId)
  })
})
