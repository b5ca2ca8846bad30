import { Agency, Agent } from '@bureau/framework'
import { codeInterpreterTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { codeInterpreter, hold, startFakeProvider, text, toolCall } from '../support/fake-provider.ts'
import { PDF, PNG, startFileServer } from '../support/file-server.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

async function serverWith(options: Parameters<typeof startTestServer>[0] = {}): Promise<TestServer> {
  const server = await startTestServer({ agencies: soloAgency(), ...options })
  server.provider.respond(() => text('ok'))
  return server
}

const toolsOf = ({ provider }: TestServer, request = -1): Json => provider.modelRequests.at(request)!.body['tools']
const lastUser = ({ provider }: TestServer, request = -1): Json =>
  provider.modelRequests.at(request)!.items.findLast(({ role }) => role === 'user')!['content']

const interpreterWith = (...file_ids: string[]): Json => ({
  type: 'code_interpreter',
  container: { type: 'auto', file_ids },
})

const CODE_TYPES =
  '.c .cs .cpp .csv .html .java .json .php .py .rb .css .js .sh .ts .pkl .tar .xlsx .xml .zip .doc .docx .md .pptx .tex .txt'.split(
    ' ',
  )

describe('code, text and data files', () => {
  test.each(CODE_TYPES)('%s goes to a code interpreter of this run', async (extension) => {
    const server = await serverWith()
    const { id } = server.provider.files.add({ filename: `data${extension.toUpperCase()}`, content: 'x' })

    const { status } = await server.post('/solo/get_response', { message: 'x', file_ids: [id] })

    expect(status).toBe(200)
    expect(toolsOf(server)).toEqual([interpreterWith(id)])
  })

  test('the model is told of them in this turn only: nothing of it is stored', async () => {
    const files = await startFileServer({ '/a.csv': 'a,b\n1,2\n' })
    const server = await serverWith({ egress: { allow: [files.host] } })
    server.provider.script([[codeInterpreter('print(1)'), text('done')]])
    const { id } = server.provider.files.add({ filename: 'b.pdf', content: PDF })
    const request = { message: 'sum up', file_ids: [id], file_urls: { 'a.csv': `${files.url}/a.csv` } }

    const { body } = await server.post('/solo/get_response', request)

    expect(body.file_ids_map['a.csv']).toMatch(/^file-/)
    expect(toolsOf(server)).toEqual([interpreterWith(body.file_ids_map['a.csv'])])
    const [said, pdf, hint, ...others] = lastUser(server)
    expect([said, pdf, others]).toEqual([
      { type: 'input_text', text: 'sum up' },
      { type: 'input_file', file_id: id },
      [],
    ])
    expect(hint.text).toMatch(/code interpreter.*\["a_[0-9a-f]{8}\.csv"\]/)
    expect(body.new_messages[1].content).toEqual([said, pdf])
    expect(JSON.stringify(body.new_messages)).not.toContain('/mnt/data')

    await server.post('/solo/get_response', { message: 'and now?', chat_history: body.new_messages })

    expect(toolsOf(server)).toBeUndefined()
    expect(server.provider.modelRequests.at(-1)!.bytes.toString()).not.toContain('/mnt/data')
    expect(server.provider.rejected).toEqual([])
  })

  test('in a later turn none of them is there, unless its id is sent again', async () => {
    const files = await startFileServer(Object.fromEntries(CODE_TYPES.map((type) => [`/data${type}`, 'x'])))
    const server = await serverWith({ egress: { allow: [files.host] } })
    const file_urls = Object.fromEntries(CODE_TYPES.map((type) => [`data${type}`, `${files.url}/data${type}`]))
    const { body } = await server.post('/solo/get_response', { message: 'look', file_urls })
    const ids: string[] = Object.values(body.file_ids_map)
    const later = { message: 'and now?', chat_history: body.new_messages }

    await server.post('/solo/get_response', later)
    await server.post('/solo/get_response', { ...later, file_ids: ids })

    expect(ids).toHaveLength(25)
    expect([0, 1, 2].map((request) => toolsOf(server, request))).toEqual([
      [interpreterWith(...ids)],
      undefined,
      [interpreterWith(...ids)],
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('a message without files in its content stays a text in the history', async () => {
    const server = await serverWith()
    const { id } = server.provider.files.add({ filename: 'a.csv', content: 'x' })

    const { body } = await server.post('/solo/get_response', { message: 'sum up', file_ids: [id] })

    expect(body.new_messages[0].content).toBe('sum up')
  })

  test('they are there in every turn of the run, and for the agent that takes over', async () => {
    const second = new Agent({ name: 'Second', instructions: 'Second.', model: 'gpt-x' })
    const first = new Agent({ name: 'First', instructions: 'First.', model: 'gpt-x' })
    const agency = new Agency({ entryPoint: first, flows: [[first, second, 'handoff']] })
    const server = await serverWith({ agencies: { solo: agency } })
    server.provider.script([toolCall('transfer_to_Second'), text('done')])
    const { id } = server.provider.files.add({ filename: 'a.csv', content: 'x' })

    const { body } = await server.post('/solo/get_response', { message: 'x', file_ids: [id] })

    expect(body.response).toBe('done')
    for (const request of [0, 1]) {
      expect(toolsOf(server, request)).toContainEqual(interpreterWith(id))
      expect(JSON.stringify(lastUser(server, request))).toContain('/mnt/data')
    }
  })

  test('agents that are asked in messages do not get them', async () => {
    const helper = new Agent({ name: 'Helper', instructions: 'Help.', model: 'gpt-helper' })
    const lead = new Agent({ name: 'Lead', instructions: 'Lead.', model: 'gpt-x' })
    const server = await serverWith({ agencies: { solo: new Agency({ entryPoint: lead, flows: [[lead, helper]] }) } })
    const message = { recipient_agent: 'Helper', message: 'help', additional_instructions: '' }
    server.provider.script([toolCall('send_message', message), text('helped'), text('done')])
    const { id } = server.provider.files.add({ filename: 'a.csv', content: 'x' })

    await server.post('/solo/get_response', { message: 'x', file_ids: [id] })

    expect(server.provider.modelRequests[1]).toMatchObject({ model: 'gpt-helper', body: { model: 'gpt-helper' } })
    expect(toolsOf(server, 1)).toBeUndefined()
  })

  test('they are added to the code interpreter of the agent', async () => {
    const own = codeInterpreterTool({ container: { type: 'auto', file_ids: ['file-own'] } })
    const server = await serverWith({ agencies: soloAgency({ tools: [own] }) })
    const { id } = server.provider.files.add({ filename: 'a.csv', content: 'x' })

    await server.post('/solo/get_response', { message: 'x', file_ids: [id] })
    await server.post('/solo/get_response', { message: 'x' })

    expect(toolsOf(server, 0)[0].container).toEqual({ type: 'auto', file_ids: ['file-own', id] })
    expect(toolsOf(server, 1)[0].container).toEqual({ type: 'auto', file_ids: ['file-own'] })
  })

  // Files belong to their request: others that run at the same time must not see them.
  test('requests at the same time never see each other’s files', async () => {
    const server = await serverWith()
    const gate = server.provider.gate()
    const ids = Array.from(
      { length: 20 },
      (_, n) => server.provider.files.add({ filename: `${n}.csv`, content: 'x' }).id,
    )
    server.provider.respond(({ body }) => [
      hold(gate, { before: 'headers' }),
      text(JSON.stringify(body['tools'] ?? null)),
    ])

    const asked = ids.map((id, n) =>
      server.post('/solo/get_response', { message: 'x', ...(n % 2 === 0 && { file_ids: [id] }) }),
    )
    await server.provider.waitForRequests(ids.length)
    gate.release()
    const answers = await Promise.all(asked)

    answers.forEach(({ body }, n) => {
      expect(JSON.parse(body.response)).toEqual(n % 2 === 0 ? [interpreterWith(ids[n]!)] : null)
    })
  })
})

const INLINE_PDF = {
  type: 'file',
  file: { filename: expect.stringMatching(/\.pdf$/), file_data: dataUrl('application/pdf', PDF) },
}
const INLINE_PNG = { type: 'image_url', image_url: { url: dataUrl('image/png', PNG), detail: 'auto' } }

function dataUrl(mime: string, bytes: Buffer): string {
  return `data:${mime};base64,${bytes.toString('base64')}`
}

describe('a provider that cannot open stored files', () => {
  const PATHS = { '/a.pdf': PDF, '/b.png': PNG, '/c.csv': 'a,b\n1,2\n', '/d.zip': Buffer.from('PK\u0003\u0004') }
  const NAMES = ['a.pdf', 'b.png', 'c.csv', 'd.zip']

  async function compatible(more: Parameters<typeof startTestServer>[0] = {}) {
    const files = await startFileServer(PATHS)
    const server = await serverWith({
      egress: { allow: [files.host] },
      ...more,
      env: { OPENAI_API: 'chat_completions', ...more.env },
    })
    return { server, file_urls: NAMES.map((name) => `${files.url}/${name}`) }
  }

  test('Chat Completions: messages carry the contents, texts as text, and nothing is uploaded', async () => {
    const { server, file_urls } = await compatible()

    const { status, body } = await server.post('/solo/get_response', { message: 'look', file_urls })

    expect(status).toBe(200)
    const [said, pdf, png, csv, zip] = lastUser(server)
    expect(said).toEqual({ type: 'text', text: 'look' })
    expect(pdf).toEqual(INLINE_PDF)
    expect(png).toEqual(INLINE_PNG)
    expect(csv.text).toMatch(/"c_[0-9a-f]{8}\.csv"\]\na,b\n1,2\n\n\[End of/)
    expect(zip.text).toMatch(/"d_[0-9a-f]{8}\.zip" is attached, but this model cannot open/)
    expect(server.provider.files.all).toEqual([])
    expect(body.file_ids_map).toEqual({})
    expect(JSON.parse(body.new_messages[0].content.split('\n').at(-1))['a.pdf'].oai_file_id).toBeNull()
    expect(server.provider.rejected).toEqual([])

    await server.post('/solo/get_response', { message: 'again', chat_history: body.new_messages })

    const earlier = server.provider.modelRequests[1]!.items.filter(({ role }) => role === 'user')
    expect(earlier[0]!['content']).toEqual([said, pdf, png, csv, zip])
  })

  test('Chat Completions: file_ids are looked up and read', async () => {
    const { server } = await compatible()
    const ids = NAMES.map((filename) => {
      return server.provider.files.add({ filename, content: PATHS[`/${filename}` as keyof typeof PATHS] }).id
    })

    const { status } = await server.post('/solo/get_response', { message: 'look', file_ids: ids })

    expect(status).toBe(200)
    const [, pdf, png, csv, zip] = lastUser(server)
    expect([pdf, png]).toEqual([INLINE_PDF, INLINE_PNG])
    expect(csv.text).toContain('a,b\n1,2\n')
    expect(zip.text).toContain('cannot open')
  })

  test('other vendors get the contents too', async () => {
    const other = await startFakeProvider({ validate: false })
    closeAfterTest(() => other.close())
    other.respond(() => text('ok'))
    const { server, file_urls } = await compatible({
      agencies: soloAgency({ model: 'thirdparty/openai_compatible/llama' }),
      env: { OPENAI_COMPATIBLE_BASE_URL: other.baseUrl },
    })

    const { status } = await server.post('/solo/get_response', { message: 'look', file_urls: file_urls.slice(1, 3) })

    expect(status).toBe(200)
    const content = JSON.stringify(other.modelRequests[0]!.items.at(-1))
    expect(content).toContain(PNG.toString('base64'))
    expect(content).toContain('a,b\\n1,2\\n')
    expect([...other.files.all, ...server.provider.files.all]).toEqual([])
  })

  test('the demo model answers a request with files without any provider', async () => {
    const { server, file_urls } = await compatible({ agencies: soloAgency({ model: 'demo' }) })

    const { status, body } = await server.post('/solo/get_response', { message: 'hello', file_urls })

    expect(status).toBe(200)
    expect(body.new_messages.map((item: Json) => item.role)).toEqual(['system', 'user', 'assistant'])
  })

  test('a text that no context would hold is refused', async () => {
    const files = await startFileServer({ '/a.txt': 'x'.repeat(1024 * 1024 + 1) })
    const env = { OPENAI_API: 'chat_completions' }
    const server = await serverWith({ egress: { allow: [files.host] }, env })

    const { body } = await server.post('/solo/get_response', { message: 'x', file_urls: [`${files.url}/a.txt`] })

    expect(body.error).toMatch(/File is too large for this model: a_[0-9a-f]{8}\.txt$/)
  })
})

describe('a caller’s address that speaks the Responses API', () => {
  test('documents and images are uploaded there; texts are text, because it has no code interpreter', async () => {
    const files = await startFileServer({ '/a.pdf': PDF, '/c.csv': 'a,b\n1,2\n' })
    const server = await serverWith({ egress: { allow: ['127.0.0.1'] } })
    const theirs = await startFakeProvider()
    closeAfterTest(() => theirs.close())
    theirs.respond(() => text('ok'))
    const client_config = { base_url: theirs.baseUrl, api_key: 'sk-caller' }
    const file_urls = { 'a.pdf': `${files.url}/a.pdf`, 'c.csv': `${files.url}/c.csv` }

    const { body } = await server.post('/solo/get_response', { message: 'look', file_urls, client_config })

    const content = theirs.modelRequests[0]!.items.at(-1)!['content'] as Json
    expect(Object.keys(body.file_ids_map)).toEqual(['a.pdf', 'c.csv'])
    expect(content[1]).toEqual({ type: 'input_file', file_id: body.file_ids_map['a.pdf'] })
    expect(content[2].text).toContain('a,b\n1,2\n')
    expect(theirs.modelRequests[0]!.body).not.toHaveProperty('tools')
    expect(theirs.rejected).toEqual([])
  })
})

describe('a client that goes away', () => {
  test.each(['/solo/get_response', '/solo/get_response_stream'])('%s: the download is given up', async (path) => {
    const files = await startFileServer({ '/slow.pdf': (response) => response.writeHead(200).write('%PDF') })
    const server = await serverWith({ egress: { allow: [files.host] } })
    const client = new AbortController()
    const body = JSON.stringify({ message: 'x', file_urls: [`${files.url}/slow.pdf`] })
    const headers = { 'content-type': 'application/json' }
    const gone = fetch(server.url + path, { method: 'POST', headers, body, signal: client.signal })
      .then((response) => response.text())
      .catch(() => 'gone')
    await expect.poll(() => files.asked).toEqual(['/slow.pdf'])

    client.abort()

    await files.abandoned
    expect(await gone).toBe('gone')
    expect(server.provider.requests).toEqual([])
  })

  test('the upload is given up', async () => {
    const files = await startFileServer({ '/a.pdf': PDF })
    const provider = await startFileServer({ '/v1/files': () => {} })
    const server = await serverWith({
      egress: { allow: [files.host] },
      env: { OPENAI_BASE_URL: `${provider.url}/v1` },
    })
    const stream = await server.stream('/solo/get_response_stream', { message: 'x', file_urls: [`${files.url}/a.pdf`] })
    await expect.poll(() => provider.asked).toEqual(['/v1/files'])

    await stream.hangUp()

    await provider.abandoned
    expect(provider.asked).toEqual(['/v1/files'])
  })
})
