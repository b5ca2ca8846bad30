import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { status, text } from '../support/fake-provider.ts'
import { FILE_ACCESS, startFileServer } from './support/file-server.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** Signed as object stores do it: gone once `sig` is not the current one. */
let current = 'one'
/** Told when somebody asks for the file that never comes. */
let onAskedInVain = (): void => {}
const files = await startFileServer((request, response) => {
  const url = new URL(request.url ?? '/', 'https://files.example.com')
  if (url.pathname === '/never.txt') return onAskedInVain()
  if (url.searchParams.get('sig') !== current) return void response.writeHead(403).end('expired: secret-canary')
  if (url.pathname.endsWith('.png')) return void response.end(Buffer.from(PNG, 'base64'))
  response.end(`content of ${url.pathname}`)
})

describe.each(ENGINES)('attachments on %s', (engine) => {
  const platform = servePlatform(engine, { access: FILE_ACCESS })
  const lastInput = (): string => JSON.stringify(platform.provider.modelRequests.at(-1)!.body['input'])
  const file = (name: string, sig = current) => ({ type: 'input_file', file_url: `${files.url}/${name}?sig=${sig}` })

  test('files and images reach the model, also in later turns', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Seen.'))
    const inline = { type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'low' }
    const image = { type: 'input_image', image_url: `${files.url}/x.png?sig=${current}` }

    const first = await client.completeWhole({ message: 'Look', attachments: [file('a.txt'), inline, image] })

    expect(first.stream.result.status).toBe('completed')
    expect(lastInput()).toContain('content of /a.txt')
    expect(lastInput().split(`data:image/png;base64,${PNG}`)).toHaveLength(3)
    expect(lastInput()).toContain('"detail":"low"')
    expect(lastInput()).not.toContain('sig=')
    await client.completeWhole({ message: 'And again', chatId: first.stream.chatId })
    expect(lastInput()).toContain('content of /a.txt')
    expect(lastInput().split(`data:image/png;base64,${PNG}`)).toHaveLength(3)

    const history = await client.get(`/v1/chats/${first.stream.chatId}/messages?limit=1`)
    expect(history.body.data[0].attachments).toEqual([
      expect.objectContaining({
        type: 'input_file',
        filename: 'a.txt',
        mime: 'text/plain',
        urlKey: `${files.url}/a.txt`,
        inline: false,
        state: 'ok',
      }),
      expect.objectContaining({ type: 'input_image', inline: true, urlKey: null, mime: 'image/png' }),
      expect.objectContaining({ type: 'input_image', inline: false, urlKey: `${files.url}/x.png` }),
    ])
    expect(history.text).not.toContain('sig=')
  })

  test('a run that is cancelled while its attachments are fetched asks no model and costs no message', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    await client.post(`/v1/integrations/${client.integrationId}/members`, {
      consumerId: 'u',
      allowance: { messages: 1 },
    })
    const asked = new Promise<void>((resolve) => (onAskedInVain = resolve))
    const before = platform.provider.modelRequests.length
    const attributed = () => ({ consumerId: 'u', usageRequestId: randomUUID() })
    const stream = await client.complete({ ...attributed(), attachments: [file('never.txt')] })
    await asked

    await client.post(`/v1/runs/${stream.runId}/cancel`)
    await stream.all()

    expect(stream.result).toMatchObject({ status: 'cancelled', new_messages: [] })
    expect(platform.provider.modelRequests).toHaveLength(before)
    platform.provider.script([text('Here I am.')])
    expect((await client.completeWhole(attributed())).status).toBe(200)
    expect((await client.completeWhole(attributed())).body.code).toBe('consumer_allowance_exhausted')
    expect(await platform.violations()).toEqual([])
  })

  test('an image of a request that is refused is not stored', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    const member = { consumerId: 'u', allowance: { messages: 0 } }
    await client.post(`/v1/integrations/${client.integrationId}/members`, member)
    const attachments = [{ type: 'input_image', image_url: `data:image/png;base64,${PNG}` }]

    const refused = await client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID(), attachments })

    expect([refused.status, refused.body.code]).toEqual([429, 'consumer_allowance_exhausted'])
    expect(await readdir(path.join(platform.dataFolder, 'blobs'))).not.toContain(client.ownerId)
  })

  test('a message may consist of attachments alone', async () => {
    const client = await platform.client()
    platform.provider.script([text('Seen.')])

    const { stream } = await client.completeWhole({ message: '', attachments: [file('only.txt')] })

    expect(stream.result.status).toBe('completed')
    expect(lastInput()).toContain('content of /only.txt')
  })

  test('attachments of a failed response are not sent again; others are', async () => {
    const client = await platform.client()
    platform.provider.script([text('Fine.'), status(401, { message: 'no' }), text('Again.')])

    const first = await client.completeWhole({ attachments: [file('good.txt')] })
    const { chatId } = first.stream
    const failed = await client.completeWhole({ chatId, message: 'Second', attachments: [file('bad.txt')] })
    await client.completeWhole({ chatId, message: 'Third' })

    expect(failed.stream.result.status).toBe('failed')
    expect(lastInput()).toContain('content of /good.txt')
    expect(lastInput()).not.toContain('content of /bad.txt')
    expect(lastInput()).toContain('[file bad.txt was attached, not available]')
    const history = await client.get(`/v1/chats/${chatId}/messages`)
    const states = history.body.data.flatMap((m: { attachments: { state: string }[] }) =>
      m.attachments.map((a) => a.state),
    )
    expect(states).toEqual(['ok', 'excluded'])
  })

  test('an earlier file that has expired must be refreshed, all of them at once', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Seen.'))
    const first = await client.completeWhole({ attachments: [file('r.txt'), file('s.txt')] })
    const { chatId } = first.stream
    const old = current
    current = `${old}x`

    const failed = await client.completeWhole({ chatId, message: 'And now?' })
    const refused = await client.completeWhole({ chatId, message: 'And now?' })

    expect(failed.stream.result).toMatchObject({
      status: 'failed',
      error: { code: 'attachment_fetch_failed', class: 'caller' },
    })
    expect(failed.text).not.toContain('canary')
    expect([refused.status, refused.body.code]).toEqual([400, 'attachment_refresh_required'])
    expect(refused.body.error).toBe(`attachmentUrlRefreshes must list: ${files.url}/r.txt, ${files.url}/s.txt`)
    expect(refused.headers.get('x-agent-run-admitted')).toBe('false')

    const fresh = (name: string) => [`${files.url}/${name}`, `${files.url}/${name}?sig=${current}`]
    const partly = await client.completeWhole({ chatId, attachmentUrlRefreshes: Object.fromEntries([fresh('r.txt')]) })
    expect(partly.body.code).toBe('attachment_refresh_required')
    const elsewhere = { [`${files.url}/r.txt`]: `${files.url}/other.txt?sig=${current}` }
    expect((await client.completeWhole({ chatId, attachmentUrlRefreshes: elsewhere })).body.code).toBe(
      'invalid_attachment_refresh',
    )

    const refreshes = Object.fromEntries([fresh('r.txt'), fresh('s.txt')])
    const answered = await client.completeWhole({ chatId, message: 'And now?', attachmentUrlRefreshes: refreshes })
    expect(answered.stream.result.status).toBe('completed')
    expect(lastInput()).toContain('content of /r.txt')
    expect((await client.completeWhole({ chatId })).stream.result.status).toBe('completed')
  })

  test.each([
    ['another host', 'r.txt', 'https://other.example.com/r.txt?sig=new'],
    ['another path', 'r.txt', `${files.url}/s.txt?sig=new`],
    ['a path that climbs', 'r.txt', `${files.url}/x/../s.txt?sig=new`],
    ['an encoded path', 'r.txt', `${files.url}/%72.txt?sig=new`],
    ['another port', 'r.txt', 'https://files.example.com:444/r.txt?sig=new'],
    ['another scheme', 'r.txt', `${files.url.replace('https', 'http')}/r.txt?sig=new`],
    ['a user', 'r.txt', `${files.url.replace('https://', 'https://user@')}/r.txt?sig=new`],
    ['a name with its query', 'r.txt?sig=one', `${files.url}/r.txt?sig=new`],
    ['a name with a fragment', 'r.txt#x', `${files.url}/r.txt?sig=new`],
    ['a file of no message', 'unknown.txt', `${files.url}/unknown.txt?sig=new`],
    ['an address that has expired as well', 'r.txt', `${files.url}/r.txt?sig=new&se=2020-01-01T00:00:00Z`],
    ['text that is no address', 'r.txt', 'r.txt'],
  ])('a refresh with %s is refused, and changes nothing', async (_name, key, fresh) => {
    const client = await platform.client()
    platform.provider.respond(() => text('Seen.'))
    const { chatId } = (await client.completeWhole({ attachments: [file('r.txt')] })).stream

    const refused = await client.completeWhole({ chatId, attachmentUrlRefreshes: { [`${files.url}/${key}`]: fresh } })

    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_attachment_refresh'])
    expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
    expect((await client.completeWhole({ chatId })).stream.result.status).toBe('completed')
    expect(lastInput()).toContain('content of /r.txt')
  })

  test("a refresh of a file of somebody else's chat is refused as one of no chat", async () => {
    const [client, other] = [await platform.client(), await platform.client()]
    platform.provider.respond(() => text('Seen.'))
    await other.completeWhole({ attachments: [file('theirs.txt')] })
    const { chatId } = (await client.completeWhole()).stream
    const refreshes = (name: string) => ({ [`${files.url}/${name}`]: `${files.url}/${name}?sig=new` })

    const foreign = await client.completeWhole({ chatId, attachmentUrlRefreshes: refreshes('theirs.txt') })
    const missing = await client.completeWhole({ chatId, attachmentUrlRefreshes: refreshes('nobodys.txt') })

    expect([foreign.status, foreign.body.code]).toEqual([400, 'invalid_attachment_refresh'])
    expect(foreign.text.replaceAll('theirs', 'nobodys')).toBe(missing.text)
  })

  test('two files that only their query tells apart cannot be refreshed', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Seen.'))
    const version = (v: number) => ({ type: 'input_file', file_url: `${files.url}/v.txt?v=${v}&sig=${current}` })
    const { chatId } = (await client.completeWhole({ attachments: [version(1), version(2)] })).stream

    const refused = await client.completeWhole({
      chatId,
      attachmentUrlRefreshes: { [`${files.url}/v.txt`]: `${files.url}/v.txt?v=1&sig=new` },
    })

    expect([refused.status, refused.body.code]).toEqual([400, 'attachment_refresh_ambiguous'])
    expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
  })

  test('a fresh file may be refreshed before it must be, and an empty list refreshes nothing', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Seen.'))
    const { chatId } = (await client.completeWhole({ attachments: [file('e.txt')] })).stream
    const before = files.requests.length

    await client.completeWhole({ chatId, attachmentUrlRefreshes: {} })
    await client.completeWhole({
      chatId,
      attachmentUrlRefreshes: { [`${files.url}/e.txt`]: `${files.url}/e.txt?sig=${current}&early=1` },
    })

    expect(files.requests.slice(before).map(({ url }) => url)).toEqual([
      `/e.txt?sig=${current}`,
      `/e.txt?sig=${current}&early=1`,
    ])
  })

  test('an address that says it has expired is refused before any run', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Seen.'))
    const signed = `${files.url}/t.txt?sig=${current}&se=${new Date(Date.now() + 60_000).toISOString()}`
    const first = await client.completeWhole({ attachments: [{ type: 'input_file', file_url: signed }] })
    expect(first.stream.result.status).toBe('completed')

    const refused = await client.completeWhole({ chatId: first.stream.chatId })

    expect([refused.status, refused.body.code]).toEqual([400, 'attachment_refresh_required'])
  })

  test('a file that cannot be fetched fails the run, in one sentence that names it', async () => {
    const client = await platform.client()

    const { stream } = await client.completeWhole({ attachments: [file('x.txt', 'wrong')] })

    expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'attachment_fetch_failed' } })
    expect(stream.result.error.message).toBe('The attachment "x.txt" could not be fetched.')
    expect(platform.provider.unused).toBe(0)
  })

  testRecords(platform)
})
