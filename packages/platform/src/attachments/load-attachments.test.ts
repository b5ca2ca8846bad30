import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { type AttachmentAccessOptions, createAttachmentAccess } from './attachment-access.ts'
import { AttachmentFailure } from './attachment-failure.ts'
import {
  type Clock,
  type ContextAttachment,
  loadAttachments,
  type LoadAttachmentsOptions,
  type LoadedAttachments,
} from './load-attachments.ts'
import { imageBytes, pngHeader } from './test-images.contract.ts'

const pem = await readFile(new URL('__fixtures__/files.example.com.pem', import.meta.url), 'utf8')

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(cleanUp.splice(0).map((task) => task()))
})

/** A file server on this machine, called files.example.com. */
async function serve(listener: RequestListener): Promise<{ url: string; port: number; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = []
  const server = createServer({ key: pem, cert: pem }, (request, response) => {
    requests.push(request)
    listener(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanUp.push(() => server.close())
  const { port } = server.address() as AddressInfo
  return { url: `https://files.example.com:${port}`, port, requests }
}

const serveFile = (content: string | Uint8Array) => serve((_request, response) => response.end(content))

let nextId = 1
function attachment(changes: Partial<ContextAttachment>): ContextAttachment {
  const id = `att_${nextId++}`
  return {
    id,
    kind: 'input_file',
    filename: 'r.txt',
    detail: null,
    mime: null,
    sent: true,
    url: null,
    blobSha256: null,
    ...changes,
  }
}

const IMPATIENT: Clock = { now: () => 0, sleep: async () => {} }

type Changes = Partial<LoadAttachmentsOptions> & { peers?: AttachmentAccessOptions }

function load(
  attachments: readonly ContextAttachment[],
  { peers, ...changes }: Changes = {},
): Promise<LoadedAttachments> {
  const access = createAttachmentAccess({
    allow: ['files.example.com'],
    ca: pem,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    ...peers,
  })
  cleanUp.push(() => access.dispatcher.destroy())
  const signal = new AbortController().signal
  return loadAttachments(attachments, { access, readBlob: async () => undefined, signal, clock: IMPATIENT, ...changes })
}

/** The content part of a single attachment. */
async function partOf(changes: Partial<ContextAttachment>, options?: Changes): Promise<unknown> {
  const { parts, notes } = await load([attachment(changes)], options)
  expect(parts.size).toBe(1)
  expect(notes.length).toBeLessThanOrEqual(1)
  return [...parts.values()][0]
}

async function failureOf(attachments: readonly ContextAttachment[], options?: Changes): Promise<AttachmentFailure> {
  const error = await load(attachments, options).then(
    () => expect.unreachable('the attachments were loaded'),
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(AttachmentFailure)
  return error as AttachmentFailure
}

const dataUrl = (mime: string, bytes: Uint8Array): string =>
  `data:${mime};base64,${Buffer.from(bytes).toString('base64')}`

const PDF = Buffer.from('%PDF-1.7\n%âãÏÓ\n1 0 obj\n')

describe('what the model gets', () => {
  test('a PDF goes as a file', async () => {
    const { url } = await serveFile(PDF)
    expect(await partOf({ url: `${url}/x?sig=1`, filename: 'r.pdf' })).toEqual({
      type: 'input_file',
      filename: 'r.pdf',
      file_data: dataUrl('application/pdf', PDF),
    })
  })

  test.each([
    ['UTF-8', 'r.csv', Buffer.from('a,b\n1,é\n'), '<file name="r.csv" type="text/csv">\na,b\n1,é\n\n</file>'],
    ['UTF-8 with a mark', 'r.txt', Buffer.from('\ufeffhi'), '<file name="r.txt" type="text/plain">\nhi\n</file>'],
    ['UTF-16', 'r.md', Buffer.from('\ufeffhé', 'utf16le'), '<file name="r.md" type="text/markdown">\nhé\n</file>'],
    ['no extension', 'notes', Buffer.from('hi'), '<file name="notes" type="text/plain">\nhi\n</file>'],
    ['a quote in its name', 'a"b.txt', Buffer.from('hi'), '<file name="a\\"b.txt" type="text/plain">\nhi\n</file>'],
  ])('text goes as text: %s', async (_what, filename, content, text) => {
    const { url } = await serveFile(content)
    expect(await partOf({ url: `${url}/x`, filename })).toEqual({ type: 'input_text', text })
  })

  test('an image goes as what its bytes say, whatever the server calls it', async () => {
    const png = imageBytes('image/png')
    const { url } = await serve((_request, response) => response.setHeader('content-type', 'text/html').end(png))
    const part = { type: 'input_image', image_url: dataUrl('image/png', png), detail: 'high' }
    const image = attachment({ kind: 'input_image', filename: null, detail: 'high', url: `${url}/x.jpg?sig=1` })
    const { parts, notes } = await load([image])
    expect(parts.get(image.id)).toEqual(part)
    expect(notes).toEqual([{ id: image.id, gone: false, mime: 'image/png', bytes: png.length }])
    expect(await partOf({ url: `${url}/x`, filename: 'x.png' })).toEqual({ ...part, detail: 'auto' })
  })

  test('an inline image comes from the blob store', async () => {
    const gif = imageBytes('image/gif')
    const blobSha256 = new Uint8Array(32).fill(7)
    const readBlob = async (sha256: Uint8Array) => (sha256 === blobSha256 ? gif : undefined)
    const inline = { kind: 'input_image', filename: null, detail: 'low', blobSha256 } as const
    expect(await partOf(inline, { readBlob })).toEqual({
      type: 'input_image',
      image_url: dataUrl('image/gif', gif),
      detail: 'low',
    })
    const failure = await failureOf([attachment({ ...inline, blobSha256: new Uint8Array(32) })], { readBlob })
    expect(failure).toMatchObject({ code: 'storage_unavailable' })
  })

  test('of an archive the model is told, of a failed response only that it was there', async () => {
    const zip = Buffer.from('PK\x03\x04 and so on')
    const { url, requests } = await serveFile(zip)
    expect(await partOf({ url: `${url}/x`, filename: 'x.zip' })).toEqual({
      type: 'input_text',
      text: `[file x.zip was attached: application/zip, ${zip.length} bytes, cannot be shown]`,
    })
    expect(await partOf({ sent: false, filename: 'r.pdf' })).toEqual({
      type: 'input_text',
      text: '[file r.pdf was attached, not available]',
    })
    expect(requests).toHaveLength(1)
  })

  test('many are kept apart by their ids', async () => {
    const { url } = await serve((request, response) => response.end(`content of ${request.url}`))
    const many = Array.from({ length: 12 }, (_, index) => attachment({ url: `${url}/${index}` }))
    const { parts, notes } = await load(many)
    for (const [index, { id }] of many.entries()) {
      expect(parts.get(id)?.['text']).toContain(`content of /${index}\n`)
    }
    expect(notes).toHaveLength(12)
    expect(await load([])).toEqual({ parts: new Map(), notes: [] })
  })
})

describe('failures', () => {
  test.each([
    ['an image that is a page', { kind: 'input_image', filename: null } as const, '<html></html>'],
    ['an SVG image', { kind: 'input_image', filename: null } as const, '<svg xmlns="http://www.w3.org/2000/svg"/>'],
    ['a PDF that is a page', { filename: 'r.pdf' }, '<html></html>'],
    ['text that is a program', { filename: 'r.txt' }, Buffer.from('\x7fELF\x02\x01\x01\0\0\0')],
    ['a type that is not supported', { filename: 'setup.exe' }, 'MZ'],
    ['bytes without a name for them', { filename: 'x' }, Buffer.from([0, 1, 2, 3])],
  ])('%s is a mismatch', async (_what, changes, content) => {
    const { url } = await serveFile(content)
    expect(await failureOf([attachment({ url: `${url}/x`, ...changes })])).toMatchObject({
      code: 'attachment_type_mismatch',
      notes: [],
    })
  })

  test('too many bytes and too many pixels are too large', async () => {
    const { url } = await serve((request, response) => {
      const [, size] = /^\/(\d+)$/.exec(request.url ?? '') ?? []
      if (size === undefined) response.end(pngHeader(10_000, 5_001))
      else response.writeHead(200, { 'content-length': size }).end(Buffer.alloc(Number(size), 'a'))
    })
    const image = { kind: 'input_image', filename: null } as const
    const tooLarge = { code: 'attachment_too_large' }
    const mib = 1024 * 1024
    expect(await failureOf([attachment({ ...image, url: `${url}/pixels` })])).toMatchObject(tooLarge)
    expect(await failureOf([attachment({ ...image, url: `${url}/${20 * mib + 1}` })])).toMatchObject(tooLarge)
    expect(await failureOf([attachment({ url: `${url}/${32 * mib + 1}` })])).toMatchObject(tooLarge)
    const three = [1, 2, 3].map(() => attachment({ url: `${url}/${22 * mib}` }))
    expect(await failureOf(three)).toMatchObject(tooLarge)
  })

  test.each([
    ['a private address', 'https://127.0.0.1:1/', {}],
    ['a name with one private address', 'https://other.example.com/', {}],
    ['a plain address', 'http://files.example.com/', {}],
    ['another port', 'https://public.example.com:8443/', {}],
  ])('%s is blocked', async (_what, url, peers) => {
    const failure = await failureOf([attachment({ url })], { peers })
    expect(failure).toMatchObject({ code: 'attachment_blocked', notes: [] })
    expect(failure.message).toBe('The attachment "r.txt" has an address that is not allowed.')
  })

  test('three redirects are followed, four are not, and each is checked', async () => {
    const { url } = await serve((request, response) => {
      const [, left] = /^\/(\d)$/.exec(request.url ?? '') ?? []
      if (left === '0') response.end('the file')
      else if (left) response.writeHead(302, { location: `/${Number(left) - 1}` }).end()
      else response.writeHead(302, { location: (request.url ?? '').slice(1) }).end()
    })
    expect(await partOf({ url: `${url}/3` })).toMatchObject({ text: expect.stringContaining('the file') as string })
    expect(await failureOf([attachment({ url: `${url}/4` })])).toMatchObject({ code: 'attachment_fetch_failed' })
    for (const target of ['http://files.example.com/', 'https://169.254.169.254/', 'https://localhost/']) {
      expect(await failureOf([attachment({ url: `${url}/${target}` })])).toMatchObject({ code: 'attachment_blocked' })
    }
  })

  test('names, connections, certificates and answers fail alike', async () => {
    const { url, port } = await serve((_request, response) => response.writeHead(500).end('a secret page'))
    const failing: [string, Changes][] = [
      [`${url}/x`, {}],
      ['https://files.example.com:1/x', {}],
      [`https://files.example.com:${port}/x`, { peers: { ca: '' } }],
      ['https://files.example.com/x', { peers: { resolve: () => Promise.reject(new Error('ENOTFOUND')) } }],
    ]
    for (const [address, options] of failing) {
      const failure = await failureOf([attachment({ url: `${address}?sig=secret` })], options)
      expect(failure).toMatchObject({
        code: 'attachment_fetch_failed',
        message: 'The attachment "r.txt" could not be fetched.',
        notes: [],
      })
    }
  })

  test('every address that was refused is noted, so that the next request can list them all', async () => {
    const { url } = await serve((request, response) => {
      const status = Number(request.url?.slice(1))
      response.writeHead(status).end(status === 200 ? 'fine' : '')
    })
    const statuses = [200, 401, 403, 404, 410, 500, 200]
    const attachments = statuses.map((status) => attachment({ url: `${url}/${status}`, filename: `${status}.txt` }))
    const failure = await failureOf(attachments)
    expect(failure.message).toBe('The attachment "401.txt" could not be fetched.')
    const gone = attachments.slice(1, 5).map(({ id }) => ({ id, gone: true }))
    expect(failure.notes).toEqual(gone)
  })

  test.each([
    [0.4, 999.6],
    [1, 999],
    [1000, 0],
    [1000.5, 999.5],
    [9_100, 900],
  ])('a failure after %d ms waits %d ms, so that all come at whole seconds', async (elapsedMs, waitedMs) => {
    const sleeps: number[] = []
    const times = [5_000, 5_000 + elapsedMs]
    const clock: Clock = { now: () => times.shift() ?? NaN, sleep: async (ms) => void sleeps.push(ms) }
    await failureOf([attachment({ url: 'https://127.0.0.1/x' })], { clock })
    expect(sleeps).toEqual([expect.closeTo(waitedMs, 6)])
  })

  test('names what is shown in one line, without the query of an address', async () => {
    const { url } = await serve((_request, response) => response.writeHead(500).end())
    const image = attachment({ kind: 'input_image', filename: null, url: `${url}/a/pic%0Ature.png?sig=secret` })
    expect((await failureOf([image])).message).toBe('The attachment "pic_ture.png" could not be fetched.')
  })

  test('an abort ends everything at once, with its reason', async () => {
    const stop = new AbortController()
    const { url } = await serve(() => stop.abort(new Error('cancelled')))
    const many = Array.from({ length: 8 }, () => attachment({ url: `${url}/x` }))
    await expect(load(many, { signal: stop.signal })).rejects.toThrow('cancelled')
  })
})
