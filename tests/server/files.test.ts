import { describe, expect, test } from 'vitest'
import { startFakeProvider, text } from '../support/fake-provider.ts'
import { type FileServer, PDF, PNG, startFileServer } from '../support/file-server.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

/** A server that may fetch from the file server, whose provider answers `ok`. */
async function serverFor(
  files: FileServer | null,
  options: Parameters<typeof startTestServer>[0] = {},
): Promise<TestServer> {
  const egress = { allow: files ? [files.host] : [] }
  const server = await startTestServer({ agencies: soloAgency(), egress, ...options })
  server.provider.respond(() => text('ok'))
  return server
}

/** The content of the user item in the model request of this number. */
function userContent({ provider }: TestServer, request = -1): Json {
  return provider.modelRequests.at(request)!.items.findLast(({ role }) => role === 'user')!['content']
}

const uploadsOf = ({ provider }: TestServer) =>
  provider.files.all.map(({ filename, purpose, contentType }) => {
    return { filename: filename.replace(/_[0-9a-f]{8}(?=\.)/, '_*'), purpose, contentType }
  })

describe('file_ids', () => {
  test('documents and images join the message of the user, in that order, and stay in the history', async () => {
    const server = await serverFor(null)
    const png = server.provider.files.add({ filename: 'a.PNG', content: PNG })
    const pdf = server.provider.files.add({ filename: 'b.pdf', content: PDF })

    const { status, body } = await server.post('/solo/get_response', { message: 'look', file_ids: [png.id, pdf.id] })

    const parts = [
      { type: 'input_text', text: 'look' },
      { type: 'input_file', file_id: pdf.id },
      { type: 'input_image', file_id: png.id },
    ]
    expect(status).toBe(200)
    expect(userContent(server)).toEqual(parts)
    expect(body.new_messages[0]).toMatchObject({ role: 'user', content: parts, agent: 'Solo' })
    expect(body).not.toHaveProperty('file_ids_map')
    expect(server.provider.requests.map(({ method, api }) => [method, api])).toEqual([
      ['GET', 'files'],
      ['GET', 'files'],
      ['POST', 'responses'],
    ])

    await server.post('/solo/get_response', { message: 'again', chat_history: body.new_messages })

    expect(server.provider.modelRequests[1]!.items[0]!['content']).toEqual(parts)
    expect(server.provider.rejected).toEqual([])
  })

  test.each([
    ['.pdf', 'input_file'],
    ['.jpeg', 'input_image'],
    ['.jpg', 'input_image'],
    ['.gif', 'input_image'],
    ['.png', 'input_image'],
  ])('%s is an %s for the model, in any case of its letters', async (extension, type) => {
    const server = await serverFor(null)
    const ids = [extension, extension.toUpperCase()].map(
      (each) => server.provider.files.add({ filename: `a${each}`, content: PDF }).id,
    )

    await server.post('/solo/get_response', { message: 'look', file_ids: ids })

    expect(userContent(server).slice(1)).toEqual(ids.map((file_id) => ({ type, file_id })))
  })

  test('a file may come without a word', async () => {
    const server = await serverFor(null)
    const { id } = server.provider.files.add({ filename: 'b.pdf', content: PDF })

    expect((await server.post('/solo/get_response', { message: '', file_ids: [id] })).status).toBe(200)

    expect(userContent(server)).toEqual([{ type: 'input_file', file_id: id }])
  })

  test('an id that is named twice is attached once', async () => {
    const server = await serverFor(null)
    const { id } = server.provider.files.add({ filename: 'b.pdf', content: PDF })

    await server.post('/solo/get_response', { message: 'x', file_ids: [id, id] })

    expect(userContent(server)).toHaveLength(2)
  })

  test.each([[[]], [null]])('nothing is attached by %j', async (file_ids) => {
    const server = await serverFor(null)

    const { body } = await server.post('/solo/get_response', { message: 'hi', file_ids })

    expect(body.new_messages[0].content).toBe('hi')
    expect(body).not.toHaveProperty('file_ids_map')
  })

  test('500 for an id that the provider does not know', async () => {
    const server = await serverFor(null)

    const { status, body } = await server.post('/solo/get_response', { message: 'x', file_ids: ['file-unknown'] })

    expect(status).toBe(500)
    expect(body.error).toBe('The model provider knows no file file-unknown.')
    expect(server.provider.modelRequests).toEqual([])
  })

  test('422 for more files than a request may have, and for ids that are no texts', async () => {
    const server = await serverFor(null)

    const many = await server.post('/solo/get_response', { message: 'x', file_ids: Array.from({ length: 51 }, String) })
    const odd = await server.post('/solo/get_response', { message: 'x', file_ids: [5] })

    expect([many.status, many.body.detail[0].loc]).toEqual([422, ['body', 'file_ids']])
    expect([odd.status, odd.body.detail[0].loc]).toEqual([422, ['body', 'file_ids', 0]])
  })

  test('an id cannot name another path of the provider', async () => {
    const server = await serverFor(null)

    const { status } = await server.post('/solo/get_response', { message: 'x', file_ids: ['../models', 'a/content'] })

    expect(status).toBe(500)
    expect(server.provider.requests).toEqual([])
  })
})

describe.each([
  ['an object', (url: string) => ({ 'my report.pdf': `${url}/r.pdf`, 'photo.png': `${url}/p.png` })],
  ['a list', (url: string) => [`${url}/my%20report.pdf`, `${url}/photo.png`]],
])('file_urls as %s', (_, urlsOf) => {
  test('files are fetched, uploaded for assistants, and referred to by id', async () => {
    const paths = { '/r.pdf': PDF, '/p.png': PNG, '/my%20report.pdf': PDF, '/photo.png': PNG }
    const files = await startFileServer(paths)
    const server = await serverFor(files)

    const { status, body } = await server.post('/solo/get_response', { message: 'look', file_urls: urlsOf(files.url) })

    expect(status).toBe(200)
    expect(uploadsOf(server)).toEqual(
      expect.arrayContaining([
        { filename: 'my report_*.pdf', purpose: 'assistants', contentType: 'application/pdf' },
        { filename: 'photo_*.png', purpose: 'assistants', contentType: 'image/png' },
      ]),
    )
    expect(Object.keys(body.file_ids_map)).toEqual(['my report.pdf', 'photo.png'])
    expect(userContent(server)).toEqual([
      { type: 'input_text', text: 'look' },
      { type: 'input_file', file_id: body.file_ids_map['my report.pdf'] },
      { type: 'input_image', file_id: body.file_ids_map['photo.png'] },
    ])
    expect(server.provider.files.deleted).toEqual([])
    expect(server.provider.rejected).toEqual([])
  })
})

describe('file_urls', () => {
  test('file_ids come first', async () => {
    const files = await startFileServer({ '/b.pdf': PDF })
    const server = await serverFor(files)
    const { id } = server.provider.files.add({ filename: 'a.pdf', content: PDF })

    const request = { message: 'x', file_ids: [id], file_urls: { 'b.pdf': `${files.url}/b.pdf` } }
    const { body } = await server.post('/solo/get_response', request)

    expect(
      userContent(server)
        .slice(1)
        .map((part: Json) => part.file_id),
    ).toEqual([id, body.file_ids_map['b.pdf']])
  })

  test('a system message says where they came from, first in new_messages, and stays in the history', async () => {
    const files = await startFileServer({ '/b.pdf?sig=1': PDF })
    const server = await serverFor(files)
    const source = `${files.url}/b.pdf?sig=1`

    const { body } = await server.post('/solo/get_response', { message: 'x', file_urls: { 'übersicht.pdf': source } })

    const [system, user, assistant] = body.new_messages
    expect([system.role, user.role, assistant.role]).toEqual(['system', 'user', 'assistant'])
    expect(system).toMatchObject({ type: 'message', agent: 'Solo', callerAgent: null, history_protocol: 'responses' })
    expect(system).not.toHaveProperty('message_origin')
    expect(system.content).toMatch(/^[\n\x20-\x7e]*$/)
    const record = JSON.parse(system.content.split('\n').at(-1))
    expect(record).toEqual({ 'übersicht.pdf': { url: source, oai_file_id: body.file_ids_map['übersicht.pdf'] } })
    expect(server.provider.modelRequests[0]!.items[0]).toMatchObject({ role: 'system', content: system.content })

    await server.post('/solo/get_response', { message: 'again', chat_history: body.new_messages })

    expect(server.provider.modelRequests[1]!.items[0]).toMatchObject({ role: 'system', content: system.content })
    expect(server.provider.rejected).toEqual([])
  })

  test('with a structured message it stands before all of its items', async () => {
    const files = await startFileServer({ '/b.pdf': PDF })
    const server = await serverFor(files)
    const message = [
      { role: 'user', content: 'one' },
      { role: 'user', content: [{ type: 'input_text', text: 'two' }] },
    ]

    const { body } = await server.post('/solo/get_response', { message, file_urls: { 'b.pdf': `${files.url}/b.pdf` } })

    expect(body.new_messages.map((item: Json) => item.role)).toEqual(['system', 'user', 'user', 'assistant'])
    expect(body.new_messages[1].content).toBe('one')
    expect(body.new_messages[2].content).toEqual([
      { type: 'input_text', text: 'two' },
      { type: 'input_file', file_id: body.file_ids_map['b.pdf'] },
    ])
  })

  test('it is no part of what the chat is named after', async () => {
    const files = await startFileServer({ '/b.pdf': PDF })
    const server = await serverFor(files)
    const file_urls = { 'b.pdf': `${files.url}/b.pdf` }

    await server.post('/solo/get_response', { message: 'hello', file_urls, generate_chat_name: true })

    const title = server.provider.modelRequests.at(-1)!
    expect(title.bytes.toString()).toContain('hello')
    expect(title.bytes.toString()).not.toContain(files.host)
  })

  test.each([[{}], [[]]])('%j: no system message, but an empty file_ids_map', async (file_urls) => {
    const server = await serverFor(null)

    const { body } = await server.post('/solo/get_response', { message: 'hi', file_urls })

    expect(body.file_ids_map).toEqual({})
    expect(body.new_messages.map((item: Json) => item.role)).toEqual(['user', 'assistant'])
  })

  test('the stream carries file_ids_map in its last frame but one', async () => {
    const files = await startFileServer({ '/b.pdf': PDF })
    const server = await serverFor(files)
    const file_urls = { 'b.pdf': `${files.url}/b.pdf` }

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'x', file_urls })).all()

    expect(stream.outline.slice(0, 2)).toEqual(['meta', 'agent:Solo'])
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result.file_ids_map).toEqual({ 'b.pdf': server.provider.files.all[0]!.id })
    expect(stream.result.new_messages[0].role).toBe('system')
  })

  test('files go to the endpoint of the request, with its key', async () => {
    const files = await startFileServer({ '/b.pdf': PDF })
    const theirs = await startFakeProvider()
    closeAfterTest(() => theirs.close())
    theirs.respond(() => text('ok'))
    const server = await serverFor(files, { egress: { allow: ['127.0.0.1'] } })
    const client_config = { base_url: theirs.baseUrl, api_key: 'sk-caller' }

    const request = { message: 'x', file_urls: { 'b.pdf': `${files.url}/b.pdf` }, client_config }
    const { body } = await server.post('/solo/get_response', request)

    expect(body.file_ids_map).toEqual({ 'b.pdf': theirs.files.all[0]!.id })
    expect(theirs.requests.map(({ api, apiKey }) => [api, apiKey])).toEqual([
      ['files', 'sk-caller'],
      ['responses', 'sk-caller'],
    ])
    expect(server.provider.requests).toEqual([])
  })

  test('the extension comes from the name, then from the URL, then from the content', async () => {
    const files = await startFileServer({ '/1': PNG, '/2.png': PNG, '/3': PNG })
    const server = await serverFor(files)
    const file_urls = { 'a.png': `${files.url}/1`, b: `${files.url}/2.png`, c: `${files.url}/3` }

    const { status } = await server.post('/solo/get_response', { message: 'x', file_urls })

    expect(status).toBe(200)
    expect(
      uploadsOf(server)
        .map(({ filename }) => filename)
        .toSorted(),
    ).toEqual(['a_*.png', 'b_*.png', 'c_*.png'])
  })
})

describe('a message whose last item is not from the user', () => {
  test('the run proceeds without the files', async () => {
    const server = await serverFor(null)
    const pdf = server.provider.files.add({ filename: 'b.pdf', content: PDF })
    const csv = server.provider.files.add({ filename: 'b.csv', content: 'a,b' })
    const message = [
      { role: 'user', content: 'one' },
      { role: 'system', content: 'two' },
    ]

    const { status, body } = await server.post('/solo/get_response', { message, file_ids: [pdf.id, csv.id] })

    expect(status).toBe(200)
    expect(body.new_messages.map((item: Json) => item.content).slice(0, 2)).toEqual(['one', 'two'])
    expect(server.provider.modelRequests[0]!.body).not.toHaveProperty('tools')
  })
})

describe('structured messages', () => {
  const image = { type: 'input_image', image_url: `data:image/png;base64,${PNG.toString('base64')}`, detail: 'auto' }
  const file = {
    type: 'input_file',
    filename: 'a.pdf',
    file_data: `data:application/pdf;base64,${PDF.toString('base64')}`,
  }
  const content = [
    { type: 'input_text', text: 'look' },
    image,
    file,
    { type: 'input_file', file_url: 'https://x.test/b.pdf' },
  ]

  test('inline parts reach the model as they are, in this turn and from the history', async () => {
    const server = await serverFor(null)

    const { body } = await server.post('/solo/get_response', { message: [{ role: 'user', content }] })
    await server.post('/solo/get_response', { message: 'and now?', chat_history: body.new_messages })

    expect(userContent(server, 0)).toEqual(content)
    expect(body.new_messages[0]).toMatchObject({ role: 'user', content, type: 'message' })
    expect(server.provider.modelRequests[1]!.items[0]!['content']).toEqual(content)
    expect(server.provider.requests.every(({ api }) => api === 'responses')).toBe(true)
    expect(server.provider.rejected).toEqual([])
  })

  test('they go with Chat Completions too', async () => {
    const server = await serverFor(null, { env: { OPENAI_API: 'chat_completions' } })

    await server.post('/solo/get_response', { message: [{ role: 'user', content: content.slice(0, 3) }] })

    expect(userContent(server)).toEqual([
      { type: 'text', text: 'look' },
      { type: 'image_url', image_url: { url: image.image_url, detail: 'auto' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: file.file_data } },
    ])
  })
})

describe('deleteUploadsAfterRun', () => {
  test('deletes what was uploaded, and nothing else, when the run has ended', async () => {
    const files = await startFileServer({ '/b.pdf': PDF })
    const server = await serverFor(files, { deleteUploadsAfterRun: true })
    const { id } = server.provider.files.add({ filename: 'a.pdf', content: PDF })
    const request = { message: 'x', file_ids: [id], file_urls: { 'b.pdf': `${files.url}/b.pdf` } }

    const { body } = await server.post('/solo/get_response', request)

    await expect.poll(() => server.provider.files.deleted).toEqual([body.file_ids_map['b.pdf']])
    expect(server.provider.files.all.map((file) => file.id)).toEqual([id])
  })
})
