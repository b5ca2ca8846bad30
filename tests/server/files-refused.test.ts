import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { PDF, startFileServer } from '../support/file-server.ts'
import { closeAfterTest, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

async function tempDirectory(): Promise<string> {
  const directory = await realpath(await mkdtemp(path.join(tmpdir(), 'bureau-files-')))
  closeAfterTest(() => rm(directory, { recursive: true, force: true }))
  return directory
}

async function serverWith(options: Parameters<typeof startTestServer>[0] = {}): Promise<TestServer> {
  const server = await startTestServer({ agencies: soloAgency(), ...options })
  server.provider.respond(() => text('ok'))
  return server
}

const PREFIX = 'Error downloading file from provided urls: '

/** Both routes refuse the request in the shape that clients know, and nothing reaches the model. Returns the reason. */
async function reasonOf(server: TestServer, file_urls: unknown): Promise<string> {
  const answer = await server.post('/solo/get_response', { message: 'x', file_urls })
  const stream = await server.stream('/solo/get_response_stream', { message: 'x', file_urls })
  await stream.all()

  expect(answer.status).toBe(200)
  expect(answer.body).toEqual({ error: expect.any(String), code: expect.stringMatching(/^attachment_/) })
  expect(answer.body.error.startsWith(PREFIX)).toBe(true)
  expect(stream.response.status).toBe(200)
  expect(stream.outline).toEqual(['error', 'end'])
  expect(nameless(JSON.stringify(stream.events))).toBe(nameless(JSON.stringify([answer.body])))
  expect(server.provider.modelRequests).toEqual([])
  return answer.body.error.slice(PREFIX.length)
}

/** Stored names are made up anew for every request. */
function nameless(text: string): string {
  return text.replace(/_[0-9a-f]{8}(?=\.)/g, '_*')
}

async function accepts(server: TestServer, file_urls: unknown): Promise<boolean> {
  const { body } = await server.post('/solo/get_response', { message: 'x', file_urls })
  return body.response === 'ok'
}

describe('local files', () => {
  test.each([
    ['when nothing is configured', undefined],
    ['when the list is empty', []],
  ])('are disabled %s', async (_, allowedLocalFileDirs) => {
    const server = await serverWith(allowedLocalFileDirs ? { allowedLocalFileDirs } : {})

    expect(await reasonOf(server, { 'a.txt': '/etc/hostname' })).toBe('Local file access is disabled for this server.')
    expect((await server.get('/solo/get_metadata')).body.allowed_local_file_dirs).toBeNull()
  })

  test('are read from allowed directories, by path or file URL, under their own names', async () => {
    const directory = await tempDirectory()
    await writeFile(path.join(directory, 'my report.pdf'), PDF)
    const server = await serverWith({ allowedLocalFileDirs: [directory] })
    const source = path.join(directory, 'my report.pdf')

    const { body } = await server.post('/solo/get_response', {
      message: 'x',
      file_urls: { one: source, two: `file://ignored${source.replaceAll(' ', '%20')}` },
    })

    expect(Object.keys(body.file_ids_map)).toEqual(['one', 'two'])
    expect(server.provider.files.all.map(({ filename }) => filename)).toEqual(['my report.pdf', 'my report.pdf'])
    expect(server.provider.files.all[0]!.content).toEqual(PDF)
    const record = JSON.parse(body.new_messages[0].content.split('\n').at(-1))
    expect(record.one).toEqual({ url: source, oai_file_id: body.file_ids_map.one })
  })

  test('a list of paths takes its names from them', async () => {
    const directory = await tempDirectory()
    await writeFile(path.join(directory, 'a.pdf'), PDF)
    const server = await serverWith({ allowedLocalFileDirs: [directory] })

    const { body } = await server.post('/solo/get_response', {
      message: 'x',
      file_urls: [path.join(directory, 'a.pdf')],
    })

    expect(Object.keys(body.file_ids_map)).toEqual(['a.pdf'])
  })

  test('outside of the allowed directories are refused, whether they exist or not', async () => {
    const parent = await tempDirectory()
    const directory = path.join(parent, 'open')
    await mkdir(directory)
    await writeFile(path.join(parent, 'secret.txt'), 'secret')
    await mkdir(path.join(parent, 'open-not'))
    await writeFile(path.join(parent, 'open-not', 'secret.txt'), 'secret')
    await symlink(path.join(parent, 'secret.txt'), path.join(directory, 'link.txt'))
    await symlink(parent, path.join(directory, 'up'))
    await symlink(path.join(parent, 'missing.txt'), path.join(directory, 'dangling.txt'))
    const server = await serverWith({ allowedLocalFileDirs: [directory] })

    for (const source of [
      path.join(parent, 'secret.txt'),
      path.join(parent, 'missing.txt'),
      path.join(parent, 'open-not', 'secret.txt'),
      `${directory}/../secret.txt`,
      `file://${directory}/%2e%2e/secret.txt`,
      path.join(directory, 'link.txt'),
      path.join(directory, 'up', 'secret.txt'),
      path.join(directory, 'dangling.txt'),
      'C:/secret.txt',
      '/etc/passwd',
    ]) {
      expect(await reasonOf(server, { 'a.txt': source })).toBe(`Local file not in allowed directories: ${source}`)
    }
    expect(server.provider.requests).toEqual([])
  })

  // What is checked is the open file, so that a path cannot lead elsewhere between the check and the reading.
  test('a path whose file is swapped for a link all the time never gives out what the link leads to', async () => {
    const parent = await tempDirectory()
    const directory = path.join(parent, 'open')
    await mkdir(directory)
    await writeFile(path.join(parent, 'secret.txt'), 'SECRET')
    const target = path.join(directory, 'a.txt')
    const server = await serverWith({ allowedLocalFileDirs: [directory] })
    const done = new AbortController()
    const swapping = (async () => {
      for (let round = 0; !done.signal.aborted; round++) {
        await rm(target, { force: true })
        if (round % 2) await writeFile(target, 'harmless')
        else await symlink(path.join(parent, 'secret.txt'), target)
      }
    })()

    for (let turn = 0; turn < 40; turn++) await server.post('/solo/get_response', { message: 'x', file_urls: [target] })
    done.abort()
    await swapping

    expect(server.provider.files.all.filter(({ content }) => content.includes('SECRET'))).toEqual([])
  })

  test('that are missing, or no files, are refused', async () => {
    const directory = await tempDirectory()
    await mkdir(path.join(directory, 'folder.txt'))
    const server = await serverWith({ allowedLocalFileDirs: [directory] })
    const missing = path.join(directory, 'missing.txt')
    const folder = path.join(directory, 'folder.txt')

    expect(await reasonOf(server, { 'a.txt': missing })).toBe(`Local file not found: ${missing}`)
    expect(await reasonOf(server, { 'a.txt': folder })).toBe(`Local path must be a file: ${folder}`)
  })

  test('an entry that is no directory makes requests with local files fail, and those only', async () => {
    const directory = await tempDirectory()
    const entry = path.join(directory, 'file.txt')
    await writeFile(entry, 'x')
    await writeFile(path.join(directory, 'a.txt'), 'x')
    const files = await startFileServer({ '/b.pdf': PDF })
    const egress = { allow: [files.host] }
    const server = await serverWith({ allowedLocalFileDirs: [directory, entry], egress })

    expect(await reasonOf(server, { 'a.txt': path.join(directory, 'a.txt') })).toBe(
      `Allowed path must be a directory: ${entry}`,
    )
    expect(await accepts(server, { 'b.pdf': `${files.url}/b.pdf` })).toBe(true)
    expect((await server.get('/solo/get_metadata')).body.allowed_local_file_dirs).toEqual([directory])
  })

  test('a missing directory is skipped, and works once it is there; metadata lists what is usable now', async () => {
    const parent = await tempDirectory()
    const later = path.join(parent, 'later')
    const server = await serverWith({ allowedLocalFileDirs: [later] })
    const usable = async () => (await server.get('/solo/get_metadata')).body.allowed_local_file_dirs

    expect(await usable()).toEqual([])
    expect(await reasonOf(server, [path.join(later, 'a.pdf')])).toBe('Local file access is disabled for this server.')

    await mkdir(later)
    await writeFile(path.join(later, 'a.pdf'), PDF)

    expect(await usable()).toEqual([later])
    expect(await accepts(server, [path.join(later, 'a.pdf')])).toBe(true)
  })
})

describe('remote files', () => {
  test.each([
    ['ftp://example.com/a.pdf', 'Unsupported URL scheme: ftp'],
    ['s3://bucket/a.pdf', 'Unsupported URL scheme: s3'],
    ['data:application/pdf;base64,AAAA', 'Unsupported URL scheme: data'],
    ['relative/a.pdf', 'Unsupported URL scheme: none'],
    ['//example.com/a.pdf', 'URL scheme is required for remote file: //example.com/a.pdf'],
    ['https://', 'Invalid URL: https://'],
  ])('%s: %s', async (source, reason) => {
    expect(await reasonOf(await serverWith(), { 'a.pdf': source })).toBe(reason)
  })

  test.each(['../a.pdf', 'folder/a.pdf', 'folder\\a.pdf', 'C:a.pdf'])('a name with path parts: %s', async (name) => {
    const server = await serverWith()

    expect(await reasonOf(server, { [name]: 'https://example.com/a.pdf' })).toBe(
      'Remote filename must not contain path components',
    )
  })

  // The service must not become a way into the network that it runs in.
  test('a loopback or private address is not even connected to', async () => {
    const files = await startFileServer({ '/a.pdf': PDF })
    const server = await serverWith()

    expect(await reasonOf(server, { 'a.pdf': `${files.url}/a.pdf` })).toBe(`URL is not allowed: ${files.url}/a.pdf`)
    for (const host of [
      'localhost',
      '10.0.0.1',
      '169.254.169.254',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '0x7f.1',
      'db.internal',
    ]) {
      expect(await reasonOf(server, { 'a.pdf': `http://${host}/a.pdf` })).toContain('URL is not allowed')
    }
    expect(files.asked).toEqual([])
  })

  test('redirects are not followed, and statuses other than 200 are failures', async () => {
    const inside = await startFileServer({ '/a.pdf': PDF })
    const files = await startFileServer({
      '/moved.pdf': (response) => response.writeHead(302, { location: `${inside.url}/a.pdf` }).end(),
      '/gone.pdf': (response) => response.writeHead(410).end('secret reasons'),
    })
    const server = await serverWith({ egress: { allow: ['127.0.0.1'] } })

    expect(await reasonOf(server, { a: `${files.url}/moved.pdf` })).toBe(
      `Download failed: ${files.url}/moved.pdf (status 302)`,
    )
    expect(await reasonOf(server, { a: `${files.url}/gone.pdf` })).toBe(
      `Download failed: ${files.url}/gone.pdf (status 410)`,
    )
    expect(inside.asked).toEqual([])
  })

  test('a download has a limit, whatever it claims', async () => {
    const chunk = Buffer.alloc(1024 * 1024)
    const files = await startFileServer({
      '/large.pdf': (response) => response.writeHead(200, { 'content-length': 33 * 1024 * 1024 }).flushHeaders(),
      '/endless.pdf': (response) => {
        response.writeHead(200)
        const more = (): void => {
          while (!response.destroyed && response.write(chunk)) {
            // Until the socket is full.
          }
        }
        response.on('drain', more)
        more()
      },
    })
    const server = await serverWith({ egress: { allow: [files.host] } })

    for (const name of ['large.pdf', 'endless.pdf']) {
      expect(await reasonOf(server, { a: `${files.url}/${name}` })).toBe(`File is too large: ${files.url}/${name}`)
    }
  })

  test('a server that is not there, and a file whose kind nobody can tell', async () => {
    const files = await startFileServer({ '/file': 'just text' })
    const server = await serverWith({ egress: { allow: ['127.0.0.1'] } })

    expect(await reasonOf(server, { 'a.pdf': 'http://127.0.0.1:1/a.pdf' })).toBe(
      'Download failed: http://127.0.0.1:1/a.pdf',
    )
    expect(await reasonOf(server, { file: `${files.url}/file` })).toBe(`No extension detected for ${files.url}/file`)
  })

  test('credentials and signatures of a URL are not repeated', async () => {
    const server = await serverWith()

    const reason = await reasonOf(server, { a: 'ftp://user:secret@example.com/a.pdf?sig=secret' })
    const blocked = await reasonOf(server, { a: 'http://127.0.0.1/a.pdf?sig=secret' })

    expect(reason + blocked).not.toContain('secret')
  })

  test('one bad file of several: nothing is uploaded', async () => {
    const files = await startFileServer({ '/a.pdf': PDF })
    const server = await serverWith({ egress: { allow: [files.host] } })

    await reasonOf(server, { 'a.pdf': `${files.url}/a.pdf`, 'b.pdf': `${files.url}/b.pdf` })

    expect(server.provider.requests).toEqual([])
  })

  const mistakes = (...entries: readonly [(string | number)[], string][]) =>
    entries.map(([path, type]) => ({ loc: ['body', 'file_urls', ...path], type }))

  test.each([
    [{ a: 5 }, mistakes([['dict[str,str]', 'a'], 'string_type'], [['list[str]'], 'list_type'])],
    [['https://example.com/a.pdf', 5], mistakes([['dict[str,str]'], 'dict_type'], [['list[str]', 1], 'string_type'])],
    ['https://example.com/a.pdf', mistakes([['dict[str,str]'], 'dict_type'], [['list[str]'], 'list_type'])],
  ])('422 that says what sources can be: %j', async (file_urls, entries) => {
    const server = await serverWith()

    const { status, body } = await server.post('/solo/get_response', { message: 'x', file_urls })

    expect(status).toBe(422)
    expect(body.detail).toMatchObject(entries)
    expect(body.error).toContain('file_urls.list[str]')
  })
})

describe('an upload that fails', () => {
  test('in the processing of the provider is told, and the upload is deleted again', async () => {
    const calls: string[] = []
    const answer = (status: string) => (response: ServerResponse, request: IncomingMessage) => {
      calls.push(`${request.method} ${request.url}`)
      request.resume().on('end', () => response.end(JSON.stringify({ id: 'file-1', status })))
    }
    const provider = await startFileServer({ '/v1/files': answer('uploaded'), '/v1/files/file-1': answer('error') })
    const files = await startFileServer({ '/a.pdf': PDF })
    const env = { OPENAI_BASE_URL: `${provider.url}/v1` }
    const server = await serverWith({ egress: { allow: [files.host] }, env })

    const { status, body } = await server.post('/solo/get_response', {
      message: 'x',
      file_urls: [`${files.url}/a.pdf`],
    })

    expect([status, body]).toEqual([
      200,
      { error: `${PREFIX}File processing failed: file-1`, code: 'attachment_fetch_failed' },
    ])
    expect(calls).toEqual(['POST /v1/files', 'GET /v1/files/file-1', 'DELETE /v1/files/file-1'])
  })

  test('is told without the provider’s words', async () => {
    const files = await startFileServer({ '/a.pdf': PDF })
    const server = await serverWith({ egress: { allow: [files.host] }, provider: { apiKeys: ['sk-other'] } })

    const reason = await reasonOf(server, { 'a.pdf': `${files.url}/a.pdf` })

    expect(reason).toMatch(/^Upload failed: a_[0-9a-f]{8}\.pdf \(status 401\)$/)
  })
})

describe('an unsupported extension', () => {
  test.each([
    ['file_urls', async () => ({ file_urls: { 'main.go': 'https://example.com/main.go' } }), '.go for file main.go'],
    [
      'file_ids',
      async ({ provider }: TestServer) => ({ file_ids: [provider.files.add({ filename: 'x.EXE', content: 'x' }).id] }),
      '.exe for file x.EXE',
    ],
    [
      'file_ids without one',
      async ({ provider }: TestServer) => ({ file_ids: [provider.files.add({ filename: 'x', content: 'x' }).id] }),
      'none for file x',
    ],
  ])('500 names extension and file, in a stream too: %s', async (_, filesOf, words) => {
    const server = await serverWith()
    const files = await filesOf(server)

    const { status, body } = await server.post('/solo/get_response', { message: 'x', ...files })
    const stream = await server.stream('/solo/get_response_stream', { message: 'x', ...files })
    await stream.all()

    expect(status).toBe(500)
    expect(body.error).toBe(`Unsupported file extension: ${words}`)
    expect(stream.events).toEqual([{ error: body.error, code: 'attachment_type_mismatch' }])
    expect(stream.outline.at(-1)).toBe('end')
    expect(server.provider.modelRequests).toEqual([])
  })
})

describe('an unknown file id in a stream', () => {
  test('is an error in the stream, which ends as usual', async () => {
    const server = await serverWith()

    const stream = await server.stream('/solo/get_response_stream', { message: 'x', file_ids: ['file-unknown'] })

    expect((await stream.all()).outline).toEqual(['meta', 'error', 'messages', 'end'])
    expect(stream.events).toEqual([
      { error: 'The model provider knows no file file-unknown.', code: 'upstream_invalid_request' },
    ])
  })
})
