import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** What may go wrong with a request: true when it has been answered, or cut off, already. */
type Fault = (request: S3Request, response: ServerResponse) => boolean | Promise<boolean>

type S3Request = {
  readonly method: string
  readonly bucket: string
  readonly key: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

type StoredObject = { readonly bytes: Buffer; readonly modifiedAt: Date }
type Multipart = { readonly key: string; readonly begunAt: Date; readonly parts: Map<number, Buffer> }

export type S3Server = AsyncDisposable & {
  readonly endpoint: string
  readonly bucket: string
  readonly objects: Map<string, StoredObject>
  readonly multiparts: Map<string, Multipart>
  /** What was asked, in order, such as `PUT a/b` or `POST a/b?uploads`. */
  readonly requests: string[]
  /** Looked at once a request has proved who it is. Undefined: all goes well. */
  fault: Fault | undefined
  /** How far the clock of this server is ahead, in milliseconds. */
  clockAheadMs: number
}

export const ACCESS_KEY = 'AKIATEST'
export const SECRET_KEY = 'the+secret/key'
export const REGION = 'eu-central-1'
/** Fewer than 1,000, so that lists of a test have several pages. */
const PAGE_SIZE = 3
const MAX_SKEW_MS = 15 * 60_000

/**
 * An S3 service on loopback that refuses what is not signed right: every signature (version 4), the checksum of every
 * body and the age of every request is verified as the specification has it. Buckets are found in the path or the host.
 */
export async function startS3Server(bucket = 'the-bucket'): Promise<S3Server> {
  const http = createServer((request, response) => {
    serve(server, request, response).catch((error: unknown) => {
      response.destroy(error as Error)
    })
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const server: S3Server = {
    endpoint: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    bucket,
    objects: new Map(),
    multiparts: new Map(),
    requests: [],
    fault: undefined,
    clockAheadMs: 0,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
  return server
}

async function serve(server: S3Server, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await buffer(incoming)
  response.setHeader('date', new Date(Date.now() + server.clockAheadMs).toUTCString())
  const url = new URL(incoming.url ?? '/', 'http://host')
  const inHost = /^([a-z0-9.-]+)\.s3\.test/.exec(incoming.headers.host ?? '')?.[1]
  const path = inHost === undefined ? url.pathname.slice(1) : `${inHost}${url.pathname}`
  const [bucket = '', ...segments] = path.split('/')
  const key = decodeURIComponent(segments.join('/'))
  const { method = '', headers } = incoming
  const request: S3Request = { method, bucket, key, query: url.searchParams, headers, body }
  const subresource = ['uploads', 'uploadId', 'delete'].find((name) => url.searchParams.has(name))
  server.requests.push(`${method} ${key}${subresource === undefined ? '' : `?${subresource}`}`)
  const refusal = refusalOf(incoming, body, Date.now() + server.clockAheadMs)
  if (refusal) return fail(response, 403, refusal)
  if (bucket !== server.bucket) return fail(response, 404, 'NoSuchBucket')
  if (await server.fault?.(request, response)) return
  answer(server, request, response)
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/

/** Why a request is not believed. */
function refusalOf(request: IncomingMessage, body: Buffer, now: number): string | undefined {
  const { headers } = request
  const parsed = AUTHORIZATION.exec(headers.authorization ?? '')
  if (!parsed) return 'AccessDenied'
  const [, accessKey, day = '', region = '', signedHeaders = '', signature = ''] = parsed
  if (accessKey !== ACCESS_KEY) return 'InvalidAccessKeyId'
  if (region !== REGION) return 'AuthorizationHeaderMalformed'
  const at = String(headers['x-amz-date'])
  const sentAt = Date.parse(at.replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5'))
  if (!at.startsWith(day) || Number.isNaN(sentAt)) return 'AccessDenied'
  if (Math.abs(sentAt - now) > MAX_SKEW_MS) return 'RequestTimeTooSkewed'
  if (headers['x-amz-content-sha256'] !== sha256(body)) return 'XAmzContentSHA256Mismatch'
  const names = signedHeaders.split(';')
  const mustBeSigned = Object.keys(headers).filter((name) => name === 'host' || name.startsWith('x-amz-'))
  if (!mustBeSigned.every((name) => names.includes(name))) return 'AccessDenied'
  const scope = [day, region, 's3', 'aws4_request']
  const toSign = ['AWS4-HMAC-SHA256', at, scope.join('/'), sha256(canonicalRequest(request, names))].join('\n')
  const key = scope.reduce<string | Buffer>(hmac, `AWS4${SECRET_KEY}`)
  return timingSafeEqual(hmac(key, toSign), Buffer.from(signature, 'hex')) ? undefined : 'SignatureDoesNotMatch'
}

function canonicalRequest({ method, url = '', headers }: IncomingMessage, signed: readonly string[]): string {
  const [path, query = ''] = url.split('?')
  const lines = signed.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, ' ')}`)
  const hash = headers['x-amz-content-sha256']
  return [method, path, canonicalQuery(query), ...lines, '', signed.join(';'), hash].join('\n')
}

const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)

function canonicalQuery(query: string): string {
  const pairs = [...new URLSearchParams(query)].map(([name, value]) => `${encode(name)}=${encode(value)}`)
  return pairs.toSorted().join('&')
}

function answer(server: S3Server, request: S3Request, response: ServerResponse): void {
  const { method, key, query } = request
  if (key === '' && method === 'GET')
    return query.has('uploads') ? listParts(server, request, response) : list(server, request, response)
  if (key === '' && method === 'POST' && query.has('delete')) return deleteAll(server, request, response)
  if (query.has('uploads') || query.has('uploadId')) return multipart(server, request, response)
  if (method === 'PUT') {
    server.objects.set(key, { bytes: request.body, modifiedAt: new Date() })
    return void response.setHeader('etag', etagOf(request.body)).end()
  }
  if (method === 'DELETE') {
    server.objects.delete(key)
    return void response.writeHead(204).end()
  }
  read(server, request, response)
}

function read(server: S3Server, { method, key, headers }: S3Request, response: ServerResponse): void {
  const found = server.objects.get(key)
  if (!found) return fail(response, 404, 'NoSuchKey')
  const etag = etagOf(found.bytes)
  if (headers['if-match'] !== undefined && headers['if-match'] !== etag)
    return fail(response, 412, 'PreconditionFailed')
  const from = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0)
  const bytes = found.bytes.subarray(from)
  response.writeHead(from > 0 ? 206 : 200, {
    etag,
    'content-length': bytes.length,
    'last-modified': found.modifiedAt.toUTCString(),
    ...(from > 0 && { 'content-range': `bytes ${from}-${found.bytes.length - 1}/${found.bytes.length}` }),
  })
  response.end(method === 'HEAD' ? undefined : bytes)
}

function list(server: S3Server, { query }: S3Request, response: ServerResponse): void {
  const after = query.get('continuation-token') ?? query.get('start-after') ?? ''
  const size = Math.min(PAGE_SIZE, Number(query.get('max-keys') ?? PAGE_SIZE))
  const keys = [...server.objects.keys()]
    .filter(
      (key) => key.startsWith(query.get('prefix') ?? '') && Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0,
    )
    .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  const page = keys.slice(0, size)
  const rest = keys.length > size
  const contents = page.map((key) => {
    const { bytes, modifiedAt } = server.objects.get(key)!
    return `<Contents><Key>${escape(key)}</Key><Size>${bytes.length}</Size><LastModified>${modifiedAt.toISOString()}</LastModified></Contents>`
  })
  const next = rest ? `<NextContinuationToken>${escape(page.at(-1)!)}</NextContinuationToken>` : ''
  xml(response, 'ListBucketResult', `${contents.join('')}<IsTruncated>${rest}</IsTruncated>${next}`)
}

function listParts(server: S3Server, { query }: S3Request, response: ServerResponse): void {
  const uploads = [...server.multiparts].filter(([, { key }]) => key.startsWith(query.get('prefix') ?? ''))
  const shown = uploads.map(
    ([id, { key, begunAt }]) =>
      `<Upload><Key>${escape(key)}</Key><UploadId>${id}</UploadId><Initiated>${begunAt.toISOString()}</Initiated></Upload>`,
  )
  xml(response, 'ListMultipartUploadsResult', `<IsTruncated>false</IsTruncated>${shown.join('')}`)
}

function deleteAll(server: S3Server, { body, headers }: S3Request, response: ServerResponse): void {
  const hasChecksum = Object.keys(headers).some((name) => name === 'content-md5' || name.startsWith('x-amz-checksum-'))
  if (!hasChecksum) return fail(response, 400, 'InvalidRequest')
  const keys = [...body.toString().matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key = '']) => key)
  if (keys.length > 1_000) return fail(response, 400, 'MalformedXML')
  for (const key of keys) server.objects.delete(key)
  xml(response, 'DeleteResult', '')
}

function multipart(server: S3Server, { method, key, query, body }: S3Request, response: ServerResponse): void {
  if (query.has('uploads')) {
    const id = randomUUID()
    server.multiparts.set(id, { key, begunAt: new Date(), parts: new Map() })
    return xml(response, 'InitiateMultipartUploadResult', `<Key>${escape(key)}</Key><UploadId>${id}</UploadId>`)
  }
  const id = query.get('uploadId') ?? ''
  const upload = server.multiparts.get(id)
  if (!upload || upload.key !== key) return fail(response, 404, 'NoSuchUpload')
  if (method === 'PUT') {
    upload.parts.set(Number(query.get('partNumber')), body)
    return void response.setHeader('etag', etagOf(body)).end()
  }
  server.multiparts.delete(id)
  if (method === 'DELETE') return void response.writeHead(204).end()
  const named = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber>/g)].map(([, number]) => Number(number))
  const parts = named.map((number) => upload.parts.get(number) ?? Buffer.alloc(0))
  const isTooSmall = parts.slice(0, -1).some(({ length }) => length < 5 * 1024 * 1024)
  if (isTooSmall) return fail(response, 400, 'EntityTooSmall')
  server.objects.set(key, { bytes: Buffer.concat(parts), modifiedAt: new Date() })
  xml(response, 'CompleteMultipartUploadResult', `<Key>${escape(key)}</Key>`)
}

export const etagOf = (bytes: Buffer): string => `"${createHash('md5').update(bytes).digest('hex')}"`

const escape = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

function xml(response: ServerResponse, root: string, content: string): void {
  const text = `<?xml version="1.0" encoding="UTF-8"?><${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${content}</${root}>`
  response.setHeader('content-type', 'application/xml').end(text)
}

/** As S3 does it; the answer to a HEAD has no body. */
export function fail(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' })
  response.end(
    response.req.method === 'HEAD'
      ? undefined
      : `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
  )
}
