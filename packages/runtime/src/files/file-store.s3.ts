import { ConfigError } from '@bureau/protocol'
import type { GetObjectCommandOutput, S3Client } from '@aws-sdk/client-s3'
import { CheckedBody } from './checked-body.ts'
import { isFileName, requireFileName } from './file-name.ts'
import type { FileStore, OpenedFile, PutOptions, StoredFile } from './file-store.ts'
import type { FileStores } from './file-stores.ts'
import { Download } from './s3-download.ts'
import { explainS3Error, isRefusal, reached, unavailable, unlessMissing } from './s3-error.ts'
import { type S3Place, parseS3Url } from './s3-url.ts'

type Sdk = typeof import('@aws-sdk/client-s3')
type Bucket = { readonly sdk: Sdk; readonly client: S3Client; readonly name: string }

/** The least that S3 takes for a part that is not the last, and what a put holds in memory. */
const PART_BYTES = 5 * 1024 * 1024
const KEYS_PER_DELETE = 1_000
/** Each of these waits a little longer than the one before: about ten seconds in all. */
const MAX_ATTEMPTS = 6
const CONNECT_MS = 5_000
const SILENCE_MS = 30_000

/**
 * Opens the stores of a bucket: `s3://bucket/prefix?region=…&endpoint=…&addressing=path|host`.
 *
 * Credentials are those that the AWS SDK finds: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or the role of the
 * machine. No redirect is followed.
 *
 * @param onUnreachable - Called when the bucket cannot be reached now: the stores may be used all the same.
 * @throws ConfigError the address is not valid, the SDK is not installed, or the bucket refuses this process.
 */
export async function openS3FileStores(url: string, onUnreachable: (error: Error) => void): Promise<FileStores> {
  const place = parseS3Url(url)
  const { bucket: name, prefix } = place
  const sdk = await loadSdk()
  const client = clientFor(sdk, place)
  try {
    await client.send(new sdk.ListObjectsV2Command({ Bucket: name, Prefix: prefix, MaxKeys: 1 }))
  } catch (error) {
    if (isRefusal(error)) {
      client.destroy()
      throw new ConfigError(`FILES_URL: ${explainS3Error(error)}`, { cause: error })
    }
    onUnreachable(error as Error)
  }
  const bucket = { sdk, client, name }
  return {
    open: async (area) => new S3FileStore(bucket, `${prefix}${area}/`),
    removeLeftovers: (before) => abortPutsBefore(before, bucket, prefix),
    close: () => client.destroy(),
  }
}

/** Not installed with the server: it is larger than the rest of it, and a disk needs no SDK. */
async function loadSdk(): Promise<Sdk> {
  try {
    return await import('@aws-sdk/client-s3')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new ConfigError('FILES_URL: install the client for S3: npm install @aws-sdk/client-s3@3', { cause })
  }
}

function clientFor(sdk: Sdk, { region, endpoint, addressing }: S3Place): S3Client {
  // A slow reader keeps its connection, and must not keep others from theirs.
  const agent = { keepAlive: true, maxSockets: 1_000 }
  return new sdk.S3Client({
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    forcePathStyle: addressing === 'path',
    maxAttempts: MAX_ATTEMPTS,
    // The signature covers the SHA-256 of each body. Checksums beyond that are not known to every server.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      requestTimeout: SILENCE_MS,
      throwOnRequestTimeout: true,
      socketTimeout: SILENCE_MS,
      httpAgent: agent,
      httpsAgent: agent,
    },
  })
}

async function abortPutsBefore(before: number, { sdk, client, name }: Bucket, prefix: string): Promise<void> {
  for (let marker = {}; ;) {
    const command = new sdk.ListMultipartUploadsCommand({ Bucket: name, Prefix: prefix, ...marker })
    const page = await reached(client.send(command))
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if ((Initiated?.getTime() ?? before) >= before) continue
      await reached(client.send(new sdk.AbortMultipartUploadCommand({ Bucket: name, Key, UploadId })))
    }
    if (page.IsTruncated !== true) return
    marker = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
  }
}

/** One object for each file, under a prefix. */
class S3FileStore implements FileStore {
  readonly #bucket: Bucket
  readonly #prefix: string

  constructor(bucket: Bucket, prefix: string) {
    this.#bucket = bucket
    this.#prefix = prefix
  }

  async put(
    name: string,
    body: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<StoredFile & { sha256: string }> {
    const { sdk, client } = this.#bucket
    const object = this.#object(name)
    const { signal } = options
    const checked = new CheckedBody(body, options)
    const parts = partsOf(checked)
    try {
      const first = (await parts.next()).value as Part // there is always one
      if (first.isLast)
        await reached(client.send(new sdk.PutObjectCommand({ ...object, Body: first.bytes }), abortOn(signal)))
      else await this.#putParts(object, { first, rest: parts, signal })
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      await parts.return() // Closes a body of which not everything was read.
    }
    return { name, sizeBytes: checked.sizeBytes, sha256: checked.sha256, modifiedAt: Date.now() }
  }

  async open(name: string): Promise<OpenedFile | undefined> {
    const object = this.#object(name)
    const opened = await unlessMissing(this.#get(object))
    if (!opened) return undefined
    const file = fileOf(name, opened)
    const goOn = (offset: number): Promise<GetObjectCommandOutput> =>
      this.#get({ ...object, Range: `bytes=${offset}-`, IfMatch: opened.ETag })
    return { ...file, stream: new Download(opened, file.sizeBytes, goOn).stream }
  }

  async stat(name: string): Promise<StoredFile | undefined> {
    const { sdk, client } = this.#bucket
    const found = await unlessMissing(reached(client.send(new sdk.HeadObjectCommand(this.#object(name)))))
    return found && fileOf(name, found)
  }

  async delete(...names: readonly string[]): Promise<void> {
    const { sdk, client, name: Bucket } = this.#bucket
    const [only, ...others] = names.map((name) => this.#object(name))
    if (only && others.length === 0) await reached(client.send(new sdk.DeleteObjectCommand(only)))
    if (!only || others.length === 0) return
    for (let from = 0; from < names.length; from += KEYS_PER_DELETE) {
      const Objects = names.slice(from, from + KEYS_PER_DELETE).map((name) => ({ Key: this.#object(name).Key }))
      const command = new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } })
      const [failed] = (await reached(client.send(command))).Errors ?? []
      if (failed) throw unavailable(new Error(`${failed.Key} could not be deleted: ${failed.Code} ${failed.Message}`))
    }
  }

  async *list(prefix = '', after?: string): AsyncGenerator<StoredFile> {
    const { sdk, client, name: Bucket } = this.#bucket
    const listed = { Bucket, Prefix: this.#prefix + prefix, ...(after && { StartAfter: this.#prefix + after }) }
    const pages = sdk.paginateListObjectsV2({ client }, listed)
    for (;;) {
      const page = await reached(pages.next())
      if (page.done) return
      for (const { Key = '', Size, LastModified } of page.value.Contents ?? []) {
        const name = Key.slice(this.#prefix.length)
        if (isFileName(name)) yield fileOf(name, { ContentLength: Size, LastModified })
      }
    }
  }

  #object(name: string): { readonly Bucket: string; readonly Key: string } {
    requireFileName(name)
    return { Bucket: this.#bucket.name, Key: this.#prefix + name }
  }

  #get(object: { Bucket: string; Key: string; Range?: string; IfMatch?: string | undefined }) {
    const { sdk, client } = this.#bucket
    return reached(client.send(new sdk.GetObjectCommand(object)))
  }

  /** Nothing is under the name before the last part is there; what was sent of a body that fails is given up. */
  async #putParts(object: { Bucket: string; Key: string }, { first, rest, signal }: Parts): Promise<void> {
    const { sdk, client } = this.#bucket
    const begun = await reached(client.send(new sdk.CreateMultipartUploadCommand(object), abortOn(signal)))
    const upload = { ...object, UploadId: begun.UploadId }
    try {
      const Parts: { ETag: string | undefined; PartNumber: number }[] = []
      for (let part: Part | void = first; part; part = (await rest.next()).value) {
        const PartNumber = Parts.length + 1
        const command = new sdk.UploadPartCommand({ ...upload, PartNumber, Body: part.bytes })
        const { ETag } = await reached(client.send(command, abortOn(signal)))
        Parts.push({ ETag, PartNumber })
      }
      const complete = new sdk.CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } })
      await reached(client.send(complete, abortOn(signal)))
    } catch (error) {
      // If this fails as well, `removeLeftovers` does it later.
      await client.send(new sdk.AbortMultipartUploadCommand(upload)).catch(() => {})
      throw error
    }
  }
}

type Part = { readonly bytes: Buffer; readonly isLast: boolean }
type Parts = {
  readonly first: Part
  readonly rest: AsyncGenerator<Part, void>
  readonly signal: AbortSignal | undefined
}

/** Cuts a body into parts of one size; the last may be smaller, and empty when nothing has come. */
async function* partsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Part, void> {
  let held: Uint8Array[] = []
  let heldBytes = 0
  for await (const chunk of body) {
    held.push(chunk)
    heldBytes += chunk.byteLength
    for (; heldBytes > PART_BYTES; heldBytes -= PART_BYTES) {
      const bytes = Buffer.concat(held)
      held = [bytes.subarray(PART_BYTES)]
      yield { bytes: bytes.subarray(0, PART_BYTES), isLast: false }
    }
  }
  yield { bytes: Buffer.concat(held), isLast: true }
}

const abortOn = (signal: AbortSignal | undefined) => (signal ? { abortSignal: signal } : {})

type Found = { readonly ContentLength?: number | undefined; readonly LastModified?: Date | undefined }

function fileOf(name: string, { ContentLength = 0, LastModified }: Found): StoredFile {
  return { name, sizeBytes: ContentLength, modifiedAt: LastModified?.getTime() ?? 0 }
}
