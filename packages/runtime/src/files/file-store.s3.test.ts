import dns from 'node:dns'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { buffer, text } from 'node:stream/consumers'
import { ConfigError } from '@bureau/protocol'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  ACCESS_KEY,
  etagOf,
  fail,
  REGION,
  SECRET_KEY,
  startS3Server,
  type S3Server,
} from '../../../../tests/support/s3-server.ts'
import type { FileStore } from './file-store.ts'
import { describeFileStore } from './file-store.contract.ts'
import { openS3FileStores } from './file-store.s3.ts'
import type { FileStores } from './file-stores.ts'

const LIMIT = { maxBytes: 64 * 1024 * 1024 }
const MIB = 1024 * 1024

let server: S3Server
beforeEach(async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', ACCESS_KEY)
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', SECRET_KEY)
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
  server = await startS3Server()
})
afterEach(async () => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await server[Symbol.asyncDispose]()
})

async function openStores(parameters = ''): Promise<FileStores> {
  const url = `s3://the-bucket/some/prefix?endpoint=${server.endpoint}&region=${REGION}${parameters}`
  const stores = await openS3FileStores(url, (error) => expect.fail(error.message))
  onTestFinished(() => stores.close())
  return stores
}

const openStore = async (): Promise<FileStore> => (await openStores()).open('area')

async function* chunks(...parts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part)
}

describeFileStore('S3, with every signature verified', openStore)

const { S3_TEST_ENDPOINT, S3_TEST_BUCKET = 'bureau-test' } = process.env
describe.runIf(S3_TEST_ENDPOINT !== undefined)("a service of one's own (S3_TEST_ENDPOINT)", () => {
  beforeEach(() => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', process.env.S3_TEST_ACCESS_KEY ?? 'S3RVER')
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', process.env.S3_TEST_SECRET_KEY ?? 'S3RVER')
  })
  const openReal = async (): Promise<FileStore> => {
    const url = `s3://${S3_TEST_BUCKET}/test-${randomUUID()}?endpoint=${S3_TEST_ENDPOINT}`
    const stores = await openS3FileStores(url, (error) => expect.fail(error.message))
    onTestFinished(() => stores.close())
    return stores.open('area')
  }
  describeFileStore('S3_TEST_ENDPOINT', openReal)
})

describe('S3FileStore', () => {
  test('keeps each area under its own prefix of the bucket', async () => {
    const stores = await openStores()
    const [one, two] = [await stores.open('mounts/own_1/int_1'), await stores.open('mounts/own_1/int_2')]
    await one.put('a', chunks('1'), LIMIT)
    expect([...server.objects.keys()]).toEqual(['some/prefix/mounts/own_1/int_1/a'])
    expect(await two.stat('a')).toBeUndefined()
    for await (const file of two.list()) expect.fail(file.name)
  })

  test('finds a bucket by its host name where that is how the service does it', async () => {
    const lookup = dns.lookup
    vi.spyOn(dns, 'lookup').mockImplementation(((_host: string, ...rest: [never]) =>
      (lookup as (...args: unknown[]) => void)('127.0.0.1', ...rest)) as never)
    const { port } = new URL(server.endpoint)
    const url = `s3://the-bucket?endpoint=http://s3.test:${port}&region=${REGION}&addressing=host`
    const stores = await openS3FileStores(url, (error) => expect.fail(error.message))
    onTestFinished(() => stores.close())
    const store = await stores.open('area')
    await store.put('ünï & co', chunks('x'), LIMIT)
    const opened = await store.open('ünï & co')
    expect(opened && (await text(opened.stream))).toBe('x')
  })

  test('a large file goes in parts, of which none is held longer than it is sent', async () => {
    const store = await openStore()
    const content = randomBytes(11 * MIB + 7)
    await store.put('large', chunks(content.subarray(0, 100), content.subarray(100)), LIMIT)
    expect(server.requests.filter((line) => line.startsWith('PUT'))).toHaveLength(3)
    const opened = await store.open('large')
    expect(opened && (await buffer(opened.stream)).equals(content)).toBe(true)
    expect(server.multiparts.size).toBe(0)
  })

  test('a file of exactly one part goes in one request', async () => {
    const store = await openStore()
    await store.put('part', chunks(Buffer.alloc(5 * MIB)), LIMIT)
    expect(server.requests.filter((line) => line.includes('part'))).toEqual(['PUT some/prefix/area/part'])
  })

  test.each<[string, () => AsyncGenerator<Uint8Array>, object, unknown]>([
    [
      'a body that breaks off',
      async function* () {
        yield Buffer.alloc(6 * MIB)
        throw new Error('the client left')
      },
      {},
      { message: 'the client left' },
    ],
    [
      'a wrong checksum',
      () => chunks(Buffer.alloc(6 * MIB)),
      { sha256: '0'.repeat(64) },
      { code: 'checksum_mismatch' },
    ],
    ['too many bytes', () => chunks(Buffer.alloc(6 * MIB), 'x'), { maxBytes: 6 * MIB }, { code: 'file_too_large' }],
  ])('%s gives up the parts that were sent', async (_what, body, options, error) => {
    const store = await openStore()
    await expect(store.put('large', body(), { ...LIMIT, ...options })).rejects.toMatchObject(error as object)
    expect(server.requests).toContain('PUT some/prefix/area/large?uploadId')
    expect(server.multiparts.size).toBe(0)
    expect(server.objects.size).toBe(0)
  })

  test('parts that a killed process has left behind are removed, those of others under way are not', async () => {
    const stores = await openStores()
    const began = { key: 'some/prefix/area/a', parts: new Map() }
    server.multiparts.set('old', { ...began, begunAt: new Date(Date.now() - 100_000) })
    server.multiparts.set('new', { ...began, begunAt: new Date() })
    server.multiparts.set('foreign', { ...began, key: 'other/a', begunAt: new Date(0) })
    await stores.removeLeftovers(Date.now() - 50_000)
    expect([...server.multiparts.keys()]).toEqual(['new', 'foreign'])
  })

  test('deletes many files at a time', async () => {
    const store = await openStore()
    const names = Array.from({ length: 1_001 }, (_, index) => `file-${index}`)
    for (const name of names)
      server.objects.set(`some/prefix/area/${name}`, { bytes: Buffer.from('x'), modifiedAt: new Date() })
    await store.delete(...names)
    expect(server.objects.size).toBe(0)
    expect(server.requests.filter((line) => line.startsWith('POST'))).toHaveLength(2)
  })

  test('names that no caller could use are not listed', async () => {
    const store = await openStore()
    for (const name of ['folder/', 'a\\b', 'fine']) {
      server.objects.set(`some/prefix/area/${name}`, { bytes: Buffer.from('x'), modifiedAt: new Date() })
    }
    const names: string[] = []
    for await (const file of store.list()) names.push(file.name)
    expect(names).toEqual(['fine'])
  })
})

describe('when S3 has trouble', () => {
  test('a service that asks to slow down is asked again', async () => {
    const store = await openStore()
    let refusals = 2
    server.fault = (_request, response) => {
      if (refusals-- <= 0) return false
      fail(response, 503, 'SlowDown')
      return true
    }
    await store.put('a', chunks('x'), LIMIT)
    expect(server.objects.size).toBe(1)
  })

  test('a connection that is cut while a part is sent is opened again', async () => {
    const store = await openStore()
    let cuts = 1
    server.fault = ({ query }, response) => {
      if (!query.has('partNumber') || cuts-- <= 0) return false
      response.socket?.destroy()
      return true
    }
    const content = randomBytes(6 * MIB)
    await store.put('large', chunks(content), LIMIT)
    expect(server.objects.get('some/prefix/area/large')?.bytes.equals(content)).toBe(true)
  })

  test('a download whose connection is cut goes on where it was', async () => {
    const store = await openStore()
    const content = randomBytes(3 * MIB)
    await store.put('a', chunks(content), LIMIT)
    const ranges: (string | undefined)[] = []
    server.fault = cutAfterMiB(ranges)
    const opened = await store.open('a')
    expect(opened && (await buffer(opened.stream)).equals(content)).toBe(true)
    expect(ranges.length).toBeGreaterThanOrEqual(3)
    expect(ranges.slice(1).every((range) => /^bytes=[1-9]\d*-$/.test(range ?? ''))).toBe(true)
  })

  test('a download never goes on with other content than it began with', async () => {
    const store = await openStore()
    await store.put('a', chunks(randomBytes(3 * MIB)), LIMIT)
    server.fault = cutAfterMiB([])
    const opened = await store.open('a')
    server.objects.set('some/prefix/area/a', { bytes: randomBytes(3 * MIB), modifiedAt: new Date() })
    await expect(opened && buffer(opened.stream)).rejects.toMatchObject({ code: 'files_unavailable' })
  })

  test('a download that nobody reads is not kept open', async () => {
    const store = await openStore()
    await store.put('a', chunks(randomBytes(3 * MIB)), LIMIT)
    let closed: Promise<unknown> | undefined
    server.fault = (_request, response) => {
      closed = once(response, 'close')
      return false
    }
    const opened = await store.open('a')
    opened?.stream.destroy()
    await expect(closed).resolves.toBeDefined()
  })

  test('a service that cannot be reached is a 503 with the reason for the log alone', async () => {
    const store = await openStore()
    server.fault = (_request, response) => {
      fail(response, 403, 'AccessDenied')
      return true
    }
    const attempt = store.stat('a').catch((error: unknown) => error)
    expect(await attempt).toMatchObject({ code: 'files_unavailable', status: 503 })
    const put = await store.put('a', chunks('x'), LIMIT).catch((error: Error) => error)
    expect(put).toMatchObject({
      message: 'The stored files cannot be reached. Try again shortly.',
      cause: { message: 'These credentials may not use the bucket.' },
    })
  })

  test('a body whose parts are refused is closed', async () => {
    const store = await openStore()
    server.fault = ({ query }, response) => {
      if (!query.has('partNumber')) return false
      fail(response, 403, 'AccessDenied')
      return true
    }
    const source = Readable.from(chunks(...Array.from({ length: 12 }, () => Buffer.alloc(MIB))))
    await expect(store.put('large', source, LIMIT)).rejects.toMatchObject({ code: 'files_unavailable' })
    await expect.poll(() => source.destroyed).toBe(true)
  })

  test('an abort ends a request that is not answered', async () => {
    const store = await openStore()
    const abort = new AbortController()
    server.fault = async () => {
      abort.abort(new Error('the client left'))
      await sleep(1_000, undefined, { ref: false })
      return true
    }
    const { signal } = abort
    await expect(store.put('a', chunks('x'), { ...LIMIT, signal })).rejects.toThrow('the client left')
  })

  test('a clock that is wrong is set right by the answers', async () => {
    server.clockAheadMs = 60 * 60_000
    const store = await openStore()
    await store.put('a', chunks('x'), LIMIT)
    expect(await store.stat('a')).toMatchObject({ sizeBytes: 1 })
  })
})

/** Ends every answer that is longer than a MiB in the middle. */
function cutAfterMiB(ranges: (string | undefined)[]): S3Server['fault'] {
  return ({ method, key, headers }, response) => {
    if (method !== 'GET') return false
    ranges.push(headers.range)
    const { bytes } = server.objects.get(key)!
    const from = Number(/\d+/.exec(headers.range ?? '0')?.[0])
    const etag = etagOf(bytes)
    if (bytes.length - from <= MIB || (headers['if-match'] ?? etag) !== etag) return false
    response.writeHead(from > 0 ? 206 : 200, { etag, 'content-length': bytes.length - from })
    response.write(bytes.subarray(from, from + MIB), () => response.socket?.destroy())
    return true
  }
}

describe('openS3FileStores', () => {
  const open = (url: string, onUnreachable: (error: Error) => void = (error) => expect.fail(error.message)) =>
    openS3FileStores(url, onUnreachable)

  test.each([
    ['s3://other-bucket', 'There is no such bucket.'],
    ['s3://the-bucket?region=us-east-1', 'The bucket is in another region.'],
  ])('%s is refused at once', async (url, message) => {
    const query = `${url.includes('?') ? '&' : `?region=${REGION}&`}endpoint=${server.endpoint}`
    await expect(open(url + query)).rejects.toThrow(new ConfigError(`FILES_URL: ${message}`))
  })

  test.each([
    ['AWS_ACCESS_KEY_ID', 'The access key (AWS_ACCESS_KEY_ID) is not known there.'],
    ['AWS_SECRET_ACCESS_KEY', 'The secret key (AWS_SECRET_ACCESS_KEY) is not that of the access key.'],
  ])('a wrong %s is named', async (name, message) => {
    vi.stubEnv(name, 'WRONG')
    const url = `s3://the-bucket?region=${REGION}&endpoint=${server.endpoint}`
    await expect(open(url)).rejects.toThrow(new ConfigError(`FILES_URL: ${message}`))
  })

  test('a clock that nothing sets right is named', async () => {
    server.fault = (_request, response) => {
      response.removeHeader('date')
      fail(response, 403, 'RequestTimeTooSkewed')
      return true
    }
    const url = `s3://the-bucket?region=${REGION}&endpoint=${server.endpoint}`
    await expect(open(url)).rejects.toThrow('15 minutes apart')
  })

  test('a redirect is not followed', async () => {
    server.fault = (_request, response) => {
      response.writeHead(307, { location: `${server.endpoint}/elsewhere` }).end()
      return true
    }
    const unreachable: Error[] = []
    const url = `s3://the-bucket?region=${REGION}&endpoint=${server.endpoint}`
    ;(await open(url, (error) => unreachable.push(error))).close()
    expect(unreachable).toHaveLength(1)
    expect(server.requests).toHaveLength(1)
  })

  test('a service that is away does not keep a process from starting', async () => {
    await server[Symbol.asyncDispose]()
    const unreachable: Error[] = []
    const url = `s3://the-bucket?region=${REGION}&endpoint=${server.endpoint}`
    ;(await open(url, (error) => unreachable.push(error))).close()
    expect(unreachable).toHaveLength(1)
  })
})
