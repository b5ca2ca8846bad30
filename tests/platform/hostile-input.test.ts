import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { deflateSync, gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { writeBeforeReading } from '../support/broken-connections.ts'
import { text, toolCall } from '../support/fake-provider.ts'
import { FILE_ACCESS, startFileServer } from './support/file-server.ts'
import type { Answer, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

/** Leads wherever its path says. */
const files = await startFileServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'https://files.example.com')
  const to = searchParams.get('to')
  if (to !== null) return void response.writeHead(302, { location: to }).end('secret-canary')
  if (pathname === '/loop') return void response.writeHead(302, { location: '/loop' }).end()
  if (pathname === '/gzip.txt')
    return void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('bomb'))
  if (pathname === '/long.txt') return void response.writeHead(200, { 'content-length': '999999999999' }).write('x')
  response.end('fine')
})

/** A request as bytes, for what no client sends. */
function rawRequest(head: readonly string[], body = ''): string {
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

/** What an attacker sends that the table of known attacks does not name. */
describe.each(ENGINES)('hostile input on %s', (engine) => {
  const platform = servePlatform(engine, {
    access: FILE_ACCESS,
    config: { rates: { perMinute: 100_000, burst: 100_000 } },
  })
  let client: TestClient
  let members: string
  beforeAll(async () => {
    client = await platform.client()
    members = `/v1/integrations/${client.integrationId}/members`
  })

  const open = async (): Promise<Socket> => {
    const socket = connect(Number(new URL(platform.url).port), '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  }
  async function exchange(bytes: string): Promise<string> {
    const socket = await open()
    let answer = ''
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
    socket.write(bytes)
    await once(socket, 'close')
    return answer
  }
  const head = (...more: string[]): string[] => [
    'POST /get_completion_v2 HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${client.token}`,
    'Content-Type: application/json',
    ...more,
  ]
  const codeOf = ({ status, body }: Answer): unknown[] => [status, body?.code]

  describe('headers', () => {
    // Node looks for such connections every 30 seconds, which is too long for a test.
    test('that do not come in time are answered with 408, which says so', async () => {
      const { server } = platform.app
      const accepted = once(server, 'connection')
      const socket = await open()
      const late = Object.assign(new Error('too late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
      server.emit('clientError', late, (await accepted)[0] as Socket)
      const answer = String(((await once(socket, 'data')) as Buffer[])[0])

      expect(answer).toMatch(/^HTTP\/1\.1 408 .*"The head of the request did not arrive in time\."/s)
    })

    test('names of callers never become headers or fields of a stream', async () => {
      platform.provider.respond(() => text('Fine.'))
      const usageRequestId = 'id: 9 \u2028 event: end'
      const { stream } = await client.completeWhole({ usageRequestId, aliasChatId: 'Zimmer ü\u2028event: end 🤖' })

      expect(stream.meta).toMatchObject({ usageRequestId, aliasChatId: 'Zimmer ü\u2028event: end 🤖' })
      expect(stream.frames.filter(({ event }) => event === 'end')).toHaveLength(1)
      expect([...stream.response.headers.values()].join()).not.toContain('Zimmer')
    })

    test.each(['agent', 'chatId', 'aliasChatId', 'usageRequestId', 'consumerId'])(
      'a line break in %s is refused or found nowhere',
      async (name) => {
        const answer = await client.completeWhole({ [name]: 'a\r\nX-Evil: 1' })

        expect(answer.headers.has('x-evil')).toBe(false)
        expect(answer.headers.get('x-agent-run-admitted')).toBe(name === 'consumerId' ? 'true' : 'false')
      },
    )

    test('a file name with quotes and line separators cannot leave its Content-Disposition', async () => {
      const name = 'a"; filename="evil.html; x=\'ü\'.txt'
      const made = await client.post('/create_agency_upload', { apiIntegrationId: client.integrationId, name, size: 1 })
      const url = new URL(made.body.uploadUrl)
      await client.fetch('PUT', url.pathname + url.search, 'x')

      const answer = await client.get(
        `/v1/integrations/${client.integrationId}/files/content?path=${encodeURIComponent(made.body.path)}`,
      )

      const disposition = answer.headers.get('content-disposition')!
      expect(disposition).toMatch(/^attachment/)
      expect(disposition.replaceAll(/\\./g, '').match(/filename\*?=/g) ?? []).toHaveLength(1)
      expect(disposition).not.toContain('ü')
    })

    test('forwarded headers of a stranger name no address of ours', async () => {
      platform.provider.respond(() => text('Fine.'))
      const headers = {
        'x-forwarded-host': 'evil.example.com',
        'x-forwarded-proto': 'https',
        forwarded: 'host=evil.example.com',
      }

      const { stream } = await client.completeWhole({}, { headers })

      expect(stream.meta.events_url).not.toContain('evil')
    })
  })

  describe('JSON', () => {
    test('a name twice is refused however it is written, at any depth', async () => {
      for (const twice of ['{"message":"a","mess\\u0061ge":"b"}', '{"user_context":{"a":{"b":1,"\\u0062":2}}}']) {
        expect(codeOf(await client.completeRaw(twice))).toEqual([400, 'invalid_json'])
      }
      expect((await client.post(members, '{"consumerId":"a","consumerId":"b"}')).body.code).toBe('invalid_json')
    })

    test.each([
      '{"consumerId":"p","metadata":{"\\u005f_proto__":"x"}}',
      '{"consumerId":"p","metadata":{"a":{"b":"c"}}}',
    ])('%s is no metadata', async (body) => expect((await client.post(members, body)).status).toBe(400))

    test.each(['a b', ''])('the key %j of metadata is refused by its name, with what keys may be', async (key) => {
      const { status, body } = await client.post(members, { consumerId: 'p', metadata: { [key]: 'x' } })

      const error = `"${key}" is not a valid key: it may hold 1 to 64 of A-Z a-z 0-9 _ . -`
      expect([status, body.fields]).toEqual([400, [{ path: `/metadata/${key}`, code: 'invalid_request', error }]])
    })

    test.each(['1e400', '-1e400', '9'.repeat(400), '1E+99999', '0x10', '01', '.5', '+1', 'NaN', 'Infinity', '1_000'])(
      'the number %s is no limit',
      async (number) => {
        const answer = await client.post(
          members,
          `{"consumerId":"n","allowance":{"tokens":${number},"costUsd":${number}}}`,
        )
        expect(answer.status).toBe(400)
        expect((await client.get(`${members}/n`)).status).toBe(404)
      },
    )

    test.each([
      ['UTF-16', Buffer.from('{}', 'utf16le')],
      ['an overlong encoding', Buffer.from([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d])],
      ['an encoded surrogate', Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d])],
      ['a deflated body', deflateSync('{}')],
      ['an archive', Buffer.from('PK\u0003\u0004'.repeat(1_000))],
    ])('%s is not JSON', async (_name, body) => {
      expect((await client.completeRaw(body)).status).toBe(400)
    })

    test('a byte order mark before an object is refused by its name', async () => {
      const answer = await client.call('POST', members, Buffer.from('\ufeff{"consumerId":"marked"}'))

      expect(codeOf(answer)).toEqual([400, 'invalid_json'])
      expect(answer.body.error).toContain('byte order mark')
      expect((await client.get(`${members}/marked`)).status).toBe(404)
    })

    test('a thousand small attachments, refreshes and names are refused for their number', async () => {
      const many = Object.fromEntries(
        Array.from({ length: 1_000 }, (_, at) => [`https://x.example.com/${at}`, `https://x.example.com/${at}?s=1`]),
      )
      expect(codeOf(await client.completeWhole({ attachmentUrlRefreshes: many }))).toEqual([400, 'invalid_request'])
      const batch = { members: Array.from({ length: 501 }, (_, at) => ({ consumerId: `u-${at}` })) }
      expect((await client.post(`${members}/batch`, batch)).status).toBe(400)
    })
  })

  describe('text', () => {
    test.each([
      ['a dotless i', 'admın'],
      ['full width letters', 'ａｄｍｉｎ'],
      ['a zero width space', 'ad\u200bmin'],
      ['a combining mark', 'e\u0301'],
    ])('a consumer id with %s is refused, so that no two look alike', async (_name, consumerId) => {
      expect((await client.post(members, { consumerId })).body.code).toBe('invalid_consumer_id')
    })

    test.each([
      ['right to left override', 'gnp.\u202etxt'],
      ['a zero width joiner', 'a\u200d.txt'],
      ['a line separator', 'a\u2028.txt'],
      ['too many bytes', `${'ü'.repeat(200)}.txt`],
      ['a separator that looks like one', '..／x.txt'.normalize('NFKC')],
    ])('a file name with %s is refused', async (_name, name) => {
      const made = await client.post('/create_agency_upload', { apiIntegrationId: client.integrationId, name, size: 1 })
      expect(codeOf(made)).toEqual([400, 'invalid_file_name'])
    })

    test('two spellings of one name are two files, never one that hides the other', async () => {
      const paths = []
      for (const name of ['\u00e9.txt', 'E.TXT', 'e.txt']) {
        const made = await client.post('/create_agency_upload', {
          apiIntegrationId: client.integrationId,
          name,
          size: 1,
        })
        expect(made.status).toBe(200)
        paths.push(made.body.path)
      }
      expect(new Set(paths).size).toBe(3)
    })

    test('what looks like SQL, markup or a template is text', async () => {
      platform.provider.respond(() => text('Fine.'))
      const message = "'; DROP TABLE runs; -- <script>alert(1)</script> {{7*7}} ${7*7} %s %n"
      const { stream } = await client.completeWhole({ message, consumerId: message, aliasChatId: message })

      const history = await client.get(`/v1/chats/${stream.chatId}/messages?limit=1`)
      expect(history.body.data[0].item.content[0].text).toBe(message)
      expect((await client.get(`/v1/chats?aliasChatId=${encodeURIComponent(message)}`)).body.data).toHaveLength(1)
      expect((await client.get('/v1/chats?consumerId=%25')).body.data).toEqual([])
    })

    test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\tx', ' =1', '"=1"', 'a,b\nc'])(
      'the cell %j is no formula and no new line',
      async (cell) => {
        const owner = await platform.client()
        platform.provider.respond(() => text('Fine.'))
        await owner.completeWhole({ consumerId: cell })

        const csv = (await owner.get('/v1/usage/export?format=csv')).text.trimEnd()
        const row = csv.slice(csv.indexOf('\r\n') + 2)

        expect(row.split(/\r\n/)).toHaveLength(1)
        expect(row).not.toMatch(/(?:^|,)"?[=+@\t-]/)
      },
    )
  })

  describe('bodies', () => {
    test('more bytes than Content-Length says are another request, which has no key', async () => {
      const smuggled = rawRequest(['GET /v1/api_keys HTTP/1.1', 'Host: x', 'Connection: close'])
      const answer = await exchange(rawRequest(head('Content-Length: 2'), `{}${smuggled}`))

      const statuses = [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
      expect(statuses).toEqual(['400', '401'])
    })

    test('fewer bytes than Content-Length says reserve nothing', async () => {
      const usageRequestId = `short-${engine}`
      const socket = await open()
      const body = JSON.stringify(client.completion({ usageRequestId }))
      socket.end(rawRequest(head(`Content-Length: ${body.length + 1}`), body))
      socket.resume()
      await once(socket, 'close')

      const found = await client.get(
        `/v1/chat_status?apiIntegrationId=${client.integrationId}&usageRequestId=${usageRequestId}`,
      )
      expect(found.body.code).toBe('usage_request_not_found')
    })

    test.each([
      ['a negative length', ['Content-Length: -1']],
      ['a length in other digits', ['Content-Length: 0x2']],
      ['a length with a sign', ['Content-Length: +2']],
      ['an unknown coding', ['Transfer-Encoding: gzip, chunked']],
      ['chunked twice', ['Transfer-Encoding: chunked, chunked']],
      ['a header that is folded', ['Content-Length: 2', ' 3']],
      ['a header with a space before its colon', ['Content-Length : 2']],
    ])('400 or nothing for %s, and a closed connection', async (_name, lines) => {
      const answer = await exchange(rawRequest(head(...lines), '{}'))

      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer).toContain('X-Agent-Run-Admitted: false')
    })

    test('33 MiB in chunks without a length are cut off', async () => {
      const socket = await open()
      let answer = ''
      socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
      socket.write(rawRequest(head('Transfer-Encoding: chunked')))
      const chunk = `100000\r\n${' '.repeat(0x100000)}\r\n`
      const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
      for (let sent = 0; sent < 40 && !socket.destroyed; sent++) {
        if (!socket.write(chunk)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed])
      }
      await closed

      expect(answer).toMatch(/^HTTP\/1\.1 413 /)
      expect(answer.toLowerCase()).toContain('x-agent-run-admitted: false')
    })

    test('what is too long is answered, also to a client that is still writing', async () => {
      const upload = { apiIntegrationId: client.integrationId, name: 'a.txt', size: 1 }
      const { pathname, search } = new URL((await client.post('/create_agency_upload', upload)).body.uploadUrl)

      const answer = await writeBeforeReading('PUT', platform.url + pathname + search, {})

      expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    })

    test('a body that comes slowly holds up nobody else', async () => {
      const slow = await Promise.all(Array.from({ length: 50 }, open))
      for (const socket of slow) socket.write(rawRequest(head('Content-Length: 1000'), '{'))

      expect((await client.get('/v1/agencies')).status).toBe(200)
      for (const socket of slow) socket.destroy()
    })
  })

  describe('addresses that lead elsewhere', () => {
    // At the same moment: what became of a fetch is told a second later at the earliest.
    test.concurrent.each([
      ['plain HTTP', 'http://files.example.com/x.txt', 'attachment_blocked'],
      ['this machine', 'https://127.0.0.1/x.txt', 'attachment_blocked'],
      ['a metadata service', 'https://169.254.169.254/latest/meta-data', 'attachment_blocked'],
      ['another scheme', 'file:///etc/passwd', 'attachment_blocked'],
      ['an address with a password', 'https://a:b@files.example.com/x.txt', 'attachment_blocked'],
      ['the port of a database', 'https://db.example.com:5432/x.txt', 'attachment_blocked'],
    ])('a redirect to %s is not followed', async (_name, to, code) => {
      const file_url = `${files.url}/r.txt?to=${encodeURIComponent(to)}`

      const { stream } = await client.completeWhole({ attachments: [{ type: 'input_file', file_url }] })

      expect(stream.result).toMatchObject({ status: 'failed', error: { code } })
      expect(JSON.stringify(stream.result)).not.toMatch(/canary|127\.0\.0\.1|169\.254|passwd/)
    })

    test.concurrent.each(['/loop', '/gzip.txt'])('%s ends as a failed fetch', async (path) => {
      const { stream } = await client.completeWhole({
        attachments: [{ type: 'input_file', file_url: files.url + path }],
      })

      expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'attachment_fetch_failed' } })
    })

    test.concurrent('a length beyond every limit is believed at once', async () => {
      const file_url = `${files.url}/long.txt`
      const { stream } = await client.completeWhole({ attachments: [{ type: 'input_file', file_url }] })

      expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'attachment_too_large' } })
    })
  })

  describe('the mount', () => {
    test.each([
      '/app/mnt/../../etc/passwd',
      '/app/mnt/uploads/../../../etc/passwd',
      '/etc/passwd',
      'uploads/x',
      '/app/mnt/./x',
      '/app/mnt//x',
      '/app/mnt/x/',
      '/app/mnt\\..\\x',
      '/app/mnt/\u2024\u2024/x\u0000',
      '/app/mnt/e\u0301',
      `/app/mnt/${'x/'.repeat(600)}x`,
      '/app/mnt/',
      '/app/mnt',
      '/APP/MNT/x',
    ])('%s is no path for anybody: request, download, deletion or tool', async (path) => {
      const place = `/v1/integrations/${client.integrationId}/files`
      const query = `?path=${encodeURIComponent(path)}`
      const name = path.split('/').at(-1)!
      platform.provider.script([toolCall('read_file', { path, offset: 1, limit: 9 }), text('No.')])

      const answers = [
        await client.completeWhole({ sandboxFiles: [{ name, path }] }),
        await client.get(`${place}/content${query}`),
        await client.call('DELETE', place + query),
      ]
      const { stream } = await client.completeWhole()

      for (const { status } of answers) expect(status).toBe(400)
      expect(stream.text).not.toContain('root:')
    })
  })

  describe('numbers and times', () => {
    test.each(['0000-01-01T00:00:00Z', '9999-12-31T23:59:59-23:59', '2026-01-01', 'now', 1795213262])(
      '%j is no expiry',
      async (expiresAt) => {
        expect((await client.post('/v1/api_keys', { name: 'x', expiresAt })).status).toBe(400)
      },
    )

    test.each(["UTC'; DROP TABLE runs; --", '../../etc/localtime', 'XXX5', '+25:00', 'utc\u0000', '', 'Mars/Base'])(
      'the zone %j is refused',
      async (timeZone) => {
        const summary = await client.get(`/v1/usage/summary?groupBy=day&timeZone=${encodeURIComponent(timeZone)}`)
        const member = await client.post(members, { consumerId: 'z', allowance: { timeZone } })

        expect([summary.status, member.status]).toEqual([400, 400])
      },
    )

    test('of an allowance, the refusal of a zone says where in the body it is', async () => {
      const allowance = { timeZone: 'Mars/Base' }
      const integration = `/v1/integrations/${client.integrationId}`
      const answers = [
        await client.post(members, { consumerId: 'z', allowance }),
        await client.post(`${members}/batch`, { members: [{ consumerId: 'y' }, { consumerId: 'z', allowance }] }),
        await client.call('PATCH', integration, { defaultAllowance: allowance }),
        await client.call('PUT', `${members}/z/allowance`, allowance),
      ]

      expect(answers.map(({ body }) => body.fields?.[0]?.path)).toEqual([
        '/allowance/timeZone',
        '/members/1/allowance/timeZone',
        '/defaultAllowance/timeZone',
        '/timeZone',
      ])
    })

    test.each(['99999999999999999999', '-1', '1e3', '0x1', '１', ' 1'])('the offset %j is refused', async (offset) => {
      platform.provider.respond(() => text('Fine.'))
      const { stream } = await client.completeWhole({})
      const at = encodeURIComponent(offset)

      expect((await client.get(`/v1/runs/${stream.runId}/text?offset=${at}`)).body.code).toBe('invalid_offset')
      expect((await client.get(`/v1/runs/${stream.runId}/events?starting_after=${at}`)).body.code).toBe(
        'invalid_last_event_id',
      )
    })
  })

  testRecords(platform)
})
