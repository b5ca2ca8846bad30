import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { Agent } from 'undici'
import { afterEach, describe, expect, test } from 'vitest'
import { startHttpServer } from '../../../../tests/support/http-server.ts'
import { createEgressPolicy } from '../egress/address-policy.ts'
import { GuardedDispatcher } from '../egress/guarded-dispatcher.ts'
import { findProviderFile, readProviderFile, waitForProviderFile, type ProviderFilesAccess } from './provider-files.ts'
import { deleteUploads, uploadAttachments } from './upload-attachments.ts'

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(cleanUp.splice(0).map((task) => task()))
})

type Behaviour = (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>
type Stored = { filename: string; mime: string; content: string; purpose: unknown; polls: number }

/** A Files API. `before` may answer a request itself (true). Files are processed after `pollsNeeded` look-ups. */
async function provider(before: Behaviour = () => false, pollsNeeded = 0) {
  const files = new Map<string, Stored>()
  const headers: IncomingMessage['headers'][] = []
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    headers.push(request.headers)
    if (await before(request, response)) return
    const id = request.url?.replace('/v1/files', '').slice(1) ?? ''
    if (request.method === 'POST') return answer(response, 200, await store(files, request))
    const file = files.get(id)
    if (!file) return answer(response, 404, { error: { message: `No such file: ${id}` } })
    if (request.method === 'DELETE') return answer(response, 200, { id, deleted: files.delete(id) })
    const status = file.polls++ < pollsNeeded ? 'uploaded' : 'processed'
    answer(response, 200, { id, filename: file.filename, status })
  }
  const baseUrl = `${await startHttpServer((request, response) => void handle(request, response))}/v1/`
  const dispatcher = new Agent()
  cleanUp.push(() => dispatcher.destroy())
  const access: ProviderFilesAccess = { baseUrl, apiKey: 'key-1', dispatcher, pollIntervalMs: 1 }
  return { files, headers, access }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function store(files: Map<string, Stored>, request: IncomingMessage): Promise<unknown> {
  const contentType = request.headers['content-type'] ?? ''
  const form = await new Response(await buffer(request), { headers: { 'content-type': contentType } }).formData()
  const file = form.get('file') as File
  const id = `file-${files.size + 1}`
  const stored = {
    filename: file.name,
    mime: file.type,
    content: await file.text(),
    purpose: form.get('purpose'),
    polls: 0,
  }
  files.set(id, stored)
  return { id, object: 'file', filename: file.name, status: 'uploaded' }
}

const file = (name: string) => ({
  name,
  fileName: `${name}_1.txt`,
  bytes: Buffer.from(`in ${name}`),
  mime: 'text/plain',
})

describe('uploadAttachments', () => {
  test('uploads every file and waits until it is processed', async () => {
    const { files, headers, access } = await provider(undefined, 2)

    const uploaded = await uploadAttachments({ ...access, headers: { 'x-team': 'a' } }, [file('a'), file('b')])

    expect(uploaded.map(({ name }) => name)).toEqual(['a', 'b'])
    for (const { name, id } of uploaded) {
      expect(files.get(id)).toMatchObject({
        filename: `${name}_1.txt`,
        mime: 'text/plain',
        content: `in ${name}`,
        purpose: 'assistants',
        polls: 3,
      })
    }
    for (const sent of headers) expect(sent).toMatchObject({ authorization: 'Bearer key-1', 'x-team': 'a' })
  })

  test('file names keep their characters and cannot break the form', async () => {
    const { files, access } = await provider()
    const fileName = 'a"\r\nContent-Type: text/html;é.txt'
    await uploadAttachments(access, [{ ...file('a'), fileName }])
    expect([...files.values()]).toEqual([expect.objectContaining({ mime: 'text/plain', content: 'in a' })])
  })

  test('a provider without states needs no look-up', async () => {
    const asked: (string | undefined)[] = []
    const { access } = await provider((request, response) => {
      asked.push(request.method)
      answer(response, 200, { id: 'file-9' })
      return true
    })
    expect(await uploadAttachments(access, [file('a')])).toEqual([{ name: 'a', id: 'file-9' }])
    expect(asked).toEqual(['POST'])
  })

  test('after a failure nothing is left at the provider', async () => {
    let uploads = 0
    const { files, access } = await provider((request, response) => {
      if (request.method !== 'POST' || ++uploads !== 3) return false
      answer(response, 413, { error: { message: 'internal words of the provider' } })
      return true
    })
    const attempt = uploadAttachments(access, [file('a'), file('b'), file('c')])
    const failure = await attempt.catch((error: unknown) => error)
    expect(failure).toMatchObject({ name: 'AttachmentError', problem: 'upload_failed' })
    expect(failure).toMatchObject({ message: expect.stringMatching(/^Upload failed: [abc]_1\.txt \(status 413\)$/) })
    expect(files.size).toBe(0)
  })

  test('a file that the provider cannot process fails by its id', async () => {
    const { access } = await provider((request, response) => {
      if (request.method !== 'GET') return false
      answer(response, 200, { id: 'file-1', status: 'error' })
      return true
    })
    await expect(uploadAttachments(access, [file('a')])).rejects.toMatchObject({
      problem: 'processing_failed',
      message: 'File processing failed: file-1',
    })
  })

  test('a file that is never processed runs into the limit and is deleted', async () => {
    const { files, access } = await provider(undefined, Infinity)
    const attempt = uploadAttachments({ ...access, processingTimeoutMs: 30 }, [file('a')])
    await expect(attempt).rejects.toMatchObject({
      problem: 'processing_timeout',
      message: 'File processing timed out: file-1',
    })
    expect(files.size).toBe(0)
  })

  test('a provider that is silent while it processes runs into the same limit', async () => {
    const { access } = await provider((request) => request.method === 'GET')
    const attempt = uploadAttachments({ ...access, processingTimeoutMs: 30 }, [file('a')])
    await expect(attempt).rejects.toMatchObject({ problem: 'processing_timeout' })
  })

  test('an abort throws its reason and deletes what was uploaded', async () => {
    const abort = new AbortController()
    const { files, access } = await provider((request) => {
      if (request.method !== 'GET') return false
      abort.abort(new Error('the run was cancelled'))
      return true
    })
    await expect(uploadAttachments(access, [file('a')], abort.signal)).rejects.toThrow('the run was cancelled')
    expect(files.size).toBe(0)
  })

  test.each<[string, Behaviour]>([
    ['no connection', (request) => Boolean(request.socket.destroy())],
    ['no JSON', (_request, response) => Boolean(response.end('<html>'))],
    ['no id', (_request, response) => Boolean(response.end('{}'))],
    ['a redirect', (_request, response) => Boolean(response.writeHead(307, { location: '/elsewhere' }).end())],
    ['no end', (_request, response) => Boolean(response.end('x'.repeat(2_000_000)))],
  ])('an answer with %s is a failed upload', async (_what, behaviour) => {
    const { access, headers } = await provider(behaviour)
    const attempt = uploadAttachments(access, [file('a')])
    await expect(attempt).rejects.toMatchObject({
      problem: 'upload_failed',
      message: expect.stringContaining('a_1.txt'),
    })
    expect(headers).toHaveLength(1)
  })

  test('a base URL of a caller cannot point at this machine', async () => {
    const { access, headers } = await provider()
    const dispatcher = new GuardedDispatcher({ policy: createEgressPolicy() })
    cleanUp.push(() => dispatcher.destroy())
    const attempt = uploadAttachments({ ...access, dispatcher }, [file('a')])
    await expect(attempt).rejects.toMatchObject({
      problem: 'blocked',
      message: "The address of the model's provider is not allowed.",
    })
    expect(headers).toEqual([])
  })
})

describe('files at the provider', () => {
  test('are found by id', async () => {
    const { access } = await provider()
    const [uploaded] = await uploadAttachments(access, [file('a')])
    expect(await findProviderFile(access, uploaded?.id ?? '')).toMatchObject({ filename: 'a_1.txt' })
    expect(await findProviderFile(access, 'file-none')).toBeUndefined()
  })

  test.each(['..', '../models', 'a/b', '', 'a?b', '%2e%2e'])('the id "%s" is never asked for', async (id) => {
    const { access, headers } = await provider()
    expect(await findProviderFile(access, id)).toBeUndefined()
    expect(await deleteUploads(access, [id])).toEqual([])
    expect(headers).toEqual([])
  })

  test('are deleted, and those that cannot be are reported', async () => {
    const { files, access } = await provider((request, response) => {
      if (request.method !== 'DELETE' || request.url !== '/v1/files/file-2') return false
      answer(response, 500, {})
      return true
    })
    await uploadAttachments(access, [file('a'), file('b')])
    const remaining = await deleteUploads(access, ['file-1', 'file-2', 'file-unknown'])
    expect(remaining).toEqual([{ id: 'file-2', error: expect.objectContaining({ problem: 'upload_failed' }) }])
    expect([...files.keys()]).toEqual(['file-2'])
  })

  test('one that disappears while it is processed has failed', async () => {
    const { access } = await provider()
    const waiting = waitForProviderFile(access, { id: 'file-gone', status: 'uploaded' })
    await expect(waiting).rejects.toMatchObject({ problem: 'processing_failed' })
  })
})

describe('readProviderFile', () => {
  const contentOf = (content: string, status = 200): Behaviour => {
    return (request, response) => {
      if (request.url !== '/v1/files/file-1/content') return false
      response.writeHead(status).end(content)
      return true
    }
  }

  test('gives the content of a stored file', async () => {
    const { access } = await provider(contentOf('a,b\n1,2\n'))

    const bytes = await readProviderFile(access, { id: 'file-1', filename: 'a.csv' }, { maxBytes: 8 })

    expect(Buffer.from(bytes).toString()).toBe('a,b\n1,2\n')
  })

  test('refuses a file above the limit, and says so when the provider does not give it out', async () => {
    const large = await provider(contentOf('123456789'))
    const closed = await provider(contentOf('Not allowed: sk-secret', 400))

    await expect(readProviderFile(large.access, { id: 'file-1' }, { maxBytes: 8 })).rejects.toMatchObject({
      problem: 'too_large',
    })
    await expect(readProviderFile(closed.access, { id: 'file-1', filename: 'a.csv' }, { maxBytes: 8 })).rejects.toThrow(
      'File cannot be read: a.csv (status 400)',
    )
  })
})

test('without a key no Authorization header is sent, and headers of the caller win over the key', async () => {
  const { access, headers } = await provider()
  const { apiKey: _key, ...keyless } = access

  await findProviderFile(keyless, 'file-1')
  await findProviderFile({ ...access, headers: { authorization: 'Bearer mine' } }, 'file-1')

  expect(headers.map(({ authorization }) => authorization)).toEqual([undefined, 'Bearer mine'])
})
