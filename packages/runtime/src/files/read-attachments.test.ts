import { mkdir, mkdtemp, readdir, readlink, realpath, rm, writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import { startHttpServer } from '../../../../tests/support/http-server.ts'
import { createEgressPolicy } from '../egress/address-policy.ts'
import { GuardedDispatcher } from '../egress/guarded-dispatcher.ts'
import { AttachmentError } from './attachment-error.ts'
import type { AttachmentSources } from './name-attachments.ts'
import { readAttachments, type ReadAttachmentsOptions } from './read-attachments.ts'

const PNG = Buffer.from(
  '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\0IDAT',
  'latin1',
)

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(cleanUp.splice(0).map((task) => task()))
})

/** Serves at `files.example.com`, the only peer that may be reached, and records what was asked for. */
async function serve(listener: RequestListener): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const address = await startHttpServer((request, response) => {
    asked.push(request.url ?? '')
    listener(request, response)
  })
  return { url: address.replace('127.0.0.1', 'files.example.com'), asked }
}

const hello: RequestListener = (_request, response) => response.end('hello')

function options(changes: Partial<ReadAttachmentsOptions> = {}): ReadAttachmentsOptions {
  const dispatcher = new GuardedDispatcher({
    policy: createEgressPolicy({ allow: ['files.example.com'] }),
    resolve: async (host) => [{ address: host === 'files.example.com' ? '127.0.0.1' : '10.1.2.3', family: 4 }],
  })
  cleanUp.push(() => dispatcher.destroy())
  return { dispatcher, ...changes }
}

async function folderWith(files: Record<string, string | Buffer>): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'bureau-attachments-')))
  cleanUp.push(() => rm(folder, { recursive: true }))
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content)
  return folder
}

async function refusalOf(sources: AttachmentSources, changes: Partial<ReadAttachmentsOptions> = {}) {
  const error = await readAttachments(sources, options(changes)).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(AttachmentError)
  const { problem, message } = error as AttachmentError
  return { problem, message }
}

describe('readAttachments', () => {
  test('loads remote and local files in the order of the request', async () => {
    const { url } = await serve((request, response) => response.end(`content of ${request.url}`))
    const folder = await folderWith({ 'notes.md': '# Notes' })
    const sources = { 'report.pdf': `${url}/x?id=1`, notes: join(folder, 'notes.md'), table: `${url}/data.CSV` }

    const attachments = await readAttachments(sources, options({ allowedLocalFileDirs: [folder] }))

    expect(attachments).toEqual([
      {
        name: 'report.pdf',
        source: `${url}/x?id=1`,
        fileName: expect.stringMatching(/^report_[0-9a-f]{8}\.pdf$/),
        bytes: Buffer.from('content of /x?id=1'),
        mime: 'application/pdf',
        extension: '.pdf',
        kind: 'input_file',
      },
      {
        name: 'notes',
        source: join(folder, 'notes.md'),
        fileName: 'notes.md',
        bytes: Buffer.from('# Notes'),
        mime: 'text/markdown',
        extension: '.md',
        kind: 'agent_file',
      },
      expect.objectContaining({ name: 'table', mime: 'text/csv', extension: '.csv', kind: 'agent_file' }),
    ])
  })

  test('nothing becomes nothing', async () => {
    expect(await readAttachments({}, options())).toEqual([])
    expect(await readAttachments([], options())).toEqual([])
  })

  test('names the entries of a list after their paths, each differently', async () => {
    const { url } = await serve(hello)
    const folder = await folderWith({ 'a.txt': '1' })
    const list = [`${url}/x/a.txt?y=/z.pdf`, join(folder, 'a.txt'), `${url}/b%20c.txt`, `${url}/%2e%2e%2fa.txt`]
    const attachments = await readAttachments(list, options({ allowedLocalFileDirs: [folder] }))
    expect(attachments.map(({ name }) => name)).toEqual(['a.txt', 'a-2.txt', 'b c.txt', 'a-3.txt'])
  })

  describe('the type of a remote file', () => {
    test.each([
      ['its name', 'a.pdf', '/b.png', '.pdf'],
      ['its path, where the name has no extension', 'picture', '/b.PNG?x=.pdf', '.png'],
      ['its content, where the path has none either', 'picture', '/b', '.png'],
    ])('comes from %s', async (_from, name, path, extension) => {
      const { url } = await serve((_request, response) => response.end(PNG))
      const [attachment] = await readAttachments({ [name]: url + path }, options())
      expect(attachment?.extension).toBe(extension)
      expect(attachment?.fileName).toMatch(new RegExp(`_[0-9a-f]{8}\\${extension}$`))
    })

    test('text without any extension has no type', async () => {
      const { url } = await serve(hello)
      expect(await refusalOf({ notes: `${url}/notes?token=secret` })).toEqual({
        problem: 'no_extension',
        message: `No extension detected for ${url}/notes`,
      })
    })

    test('the MIME type of an image is that of its bytes', async () => {
      const { url } = await serve((_request, response) => response.end(PNG))
      const [attachment] = await readAttachments({ 'photo.jpg': `${url}/photo.jpg` }, options())
      expect(attachment).toMatchObject({ extension: '.jpg', mime: 'image/png', kind: 'input_image' })
    })

    test('long and odd names are cut and cleaned for storing', async () => {
      const { url } = await serve(hello)
      const [attachment] = await readAttachments({ [`a\n${'é'.repeat(60)}.txt`]: url }, options())
      expect(attachment?.fileName).toMatch(/^a_é{48}_[0-9a-f]{8}\.txt$/)
    })
  })

  describe('before anything is asked of the network', () => {
    test.each<[string, Record<string, string>, string, string]>([
      ['a local path', { b: '/etc/passwd' }, 'local_disabled', 'Local file access is disabled for this server.'],
      ['a scheme', { b: 'ftp://example.com/b.txt' }, 'unsupported_scheme', 'Unsupported URL scheme: ftp'],
      ['no scheme', { b: 'b.txt' }, 'unsupported_scheme', 'Unsupported URL scheme: none'],
      ['no scheme', { b: '//h/b.txt' }, 'scheme_missing', 'URL scheme is required for remote file: //h/b.txt'],
      [
        'a slash',
        { 'x/b.txt': 'https://example.com/' },
        'invalid_name',
        'Remote filename must not contain path components',
      ],
      [
        'a backslash',
        { 'x\\b': 'https://example.com/' },
        'invalid_name',
        'Remote filename must not contain path components',
      ],
      [
        'a drive',
        { 'C:b.txt': 'https://example.com/' },
        'invalid_name',
        'Remote filename must not contain path components',
      ],
      ['dots', { '..': 'https://example.com/' }, 'invalid_name', 'Remote filename must not contain path components'],
      [
        'a type',
        { 'b.go': 'https://example.com/' },
        'unsupported_type',
        'Unsupported file extension: .go for file b.go',
      ],
      ['no URL', { b: 'https://' }, 'invalid_url', 'Invalid URL: https://'],
      ['loopback', { b: 'http://2130706433/b.txt' }, 'blocked', 'URL is not allowed: http://2130706433/b.txt'],
      ['a name', { b: 'http://localhost/b.txt' }, 'blocked', 'URL is not allowed: http://localhost/b.txt'],
      [
        'credentials',
        { b: 'http://u:pw@h.example/b.txt?k=pw' },
        'blocked',
        'URL is not allowed: http://h.example/b.txt',
      ],
    ])('%s is refused: %j', async (_what, wrong, problem, message) => {
      const { url, asked } = await serve(hello)
      expect(await refusalOf({ 'a.txt': `${url}/a.txt`, ...wrong })).toEqual({ problem, message })
      expect(asked).toEqual([])
    })

    test('local files are looked at before remote schemes', async () => {
      const refusal = await refusalOf({ a: 'ftp://example.com', b: '/etc/passwd' })
      expect(refusal.problem).toBe('local_disabled')
    })

    test('a list that is configured wrongly matters only to requests with a local source', async () => {
      const { url } = await serve(hello)
      const folder = await folderWith({ 'a.txt': 'x' })
      const wrong = { allowedLocalFileDirs: [join(folder, 'a.txt')] }
      expect(await readAttachments({ 'a.txt': url }, options(wrong))).toHaveLength(1)
      expect((await refusalOf({ a: join(folder, 'a.txt') }, wrong)).problem).toBe('local_directory_invalid')
    })

    test.each([
      ['too large a local file', 'big.txt', { maxFileBytes: 3 }, 'too_large'],
      ['a local file of another type', 'main.go', {}, 'unsupported_type'],
      ['a local file without extension', 'Makefile', {}, 'unsupported_type'],
    ])('%s is refused', async (_what, name, changes, problem) => {
      const { url, asked } = await serve(hello)
      const folder = await folderWith({ [name]: 'content' })
      const sources = { 'a.txt': url, b: join(folder, name) }
      expect((await refusalOf(sources, { allowedLocalFileDirs: [folder], ...changes })).problem).toBe(problem)
      expect(asked).toEqual([])
    })

    test('too many files are refused', async () => {
      const refusal = await refusalOf(['https://a.example/1.txt', 'https://a.example/2.txt'], { maxFiles: 1 })
      expect(refusal).toEqual({ problem: 'too_many', message: 'At most 1 files are allowed.' })
    })
  })

  describe('on the way', () => {
    test.each<[string, RequestListener, string, string]>([
      ['a status', (_q, response) => response.writeHead(404).end(), 'download_failed', ' (status 404)'],
      [
        'a redirect',
        (_q, response) => response.writeHead(302, { location: '/b' }).end(),
        'download_failed',
        ' (status 302)',
      ],
      ['a reset', (request) => request.socket.destroy(), 'download_failed', ''],
      [
        'compression',
        (_q, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('x')),
        'download_failed',
        '',
      ],
    ])('%s fails the request', async (_what, listener, problem, suffix) => {
      const { url } = await serve(listener)
      const refusal = await refusalOf({ 'a.txt': `${url}/a.txt?token=secret` })
      expect(refusal).toEqual({ problem, message: `Download failed: ${url}/a.txt${suffix}` })
    })

    test('a name that resolves to a private address is refused without naming the address', async () => {
      const refusal = await refusalOf({ 'a.txt': 'http://internal.example.com/a.txt' })
      expect(refusal).toEqual({ problem: 'blocked', message: 'URL is not allowed: http://internal.example.com/a.txt' })
    })

    test('redirects are followed where the server is told so', async () => {
      const { url } = await serve((request, response) => {
        if (request.url === '/b') response.end('moved here')
        else response.writeHead(302, { location: '/b' }).end()
      })
      const [attachment] = await readAttachments({ 'a.txt': `${url}/a.txt` }, options({ maxRedirects: 1 }))
      expect(String(attachment?.bytes)).toBe('moved here')
    })

    test.each([
      ['one file', { maxFileBytes: 4 }],
      ['all files together', { maxTotalBytes: 9 }],
    ])('the size of %s is limited', async (_what, changes) => {
      const { url } = await serve(hello)
      expect((await refusalOf([`${url}/a.txt`, `${url}/b.txt`], changes)).problem).toBe('too_large')
    })

    test('the size of local files counts', async () => {
      const { url } = await serve(hello)
      const folder = await folderWith({ 'a.txt': '123456' })
      const changes = { allowedLocalFileDirs: [folder], maxTotalBytes: 10 }
      expect((await refusalOf([`${url}/a.txt`, join(folder, 'a.txt')], changes)).problem).toBe('too_large')
    })

    test('a peer that does not answer in time fails the request', async () => {
      const { url } = await serve(() => {})
      const refusal = await refusalOf({ 'a.txt': `${url}/a.txt` }, { timeoutMs: 30 })
      expect(refusal).toEqual({ problem: 'timeout', message: `Download timed out: ${url}/a.txt` })
    })

    test('files are downloaded at the same time', async () => {
      const waiting: (() => void)[] = []
      const { url } = await serve((_request, response) => {
        waiting.push(() => response.end('x'))
        if (waiting.length === 3) waiting.forEach((answer) => answer())
      })
      expect(await readAttachments([`${url}/1.txt`, `${url}/2.txt`, `${url}/3.txt`], options())).toHaveLength(3)
    })

    test('the first failure stops the other downloads', async () => {
      const closed = Promise.withResolvers<void>()
      const { url } = await serve((request, response) => {
        if (request.url === '/endless.txt') response.on('close', () => closed.resolve()).write('x')
        else response.writeHead(500).end()
      })
      const refusal = await refusalOf([`${url}/endless.txt`, `${url}/broken.txt`])
      expect(refusal.message).toBe(`Download failed: ${url}/broken.txt (status 500)`)
      await closed.promise
    })

    test('an abort throws its reason and closes the connections', async () => {
      const abort = new AbortController()
      const closed = Promise.withResolvers<void>()
      const { url } = await serve((_request, response) => {
        response.on('close', () => closed.resolve()).write('x')
        abort.abort(new Error('the client left'))
      })
      const reading = readAttachments([`${url}/a.txt`], options({ signal: abort.signal }))
      await expect(reading).rejects.toThrow('the client left')
      await closed.promise
    })
  })

  test.runIf(process.platform === 'linux')('no descriptor stays open, whatever happens', async () => {
    const openInFolder = async (folder: string): Promise<number> => {
      const links = (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''))
      return (await Promise.all(links)).filter((target) => target.startsWith(folder)).length
    }
    const { url } = await serve((_request, response) => response.writeHead(500).end())
    const folder = await folderWith({ 'a.txt': '1', 'b.go': '2' })
    await mkdir(join(folder, 'c'))
    const changes = { allowedLocalFileDirs: [folder] }
    for (const last of [join(folder, 'b.go'), join(folder, 'c'), `${url}/x.txt`, 'ftp://x']) {
      await refusalOf([join(folder, 'a.txt'), last], changes)
    }
    await readAttachments([join(folder, 'a.txt')], options(changes))
    expect(await openInFolder(folder)).toBe(0)
  })
})
