import { setTimeout as pause } from 'node:timers/promises'
import { FormData, request, type Dispatcher } from 'undici'
import { z } from 'zod'
import { endpointUrl } from '@bureau/framework'
import { EgressError } from '../egress/egress-error.ts'
import { AttachmentError, shown } from './attachment-error.ts'

/** How to reach a model provider's Files API, for one run. */
export type ProviderFilesAccess = {
  /** As for the models, e.g. `https://api.openai.com/v1`. */
  readonly baseUrl: string
  /** Absent: requests carry no key, only `headers`. */
  readonly apiKey?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** For a base URL that came from a caller: a `GuardedDispatcher`. */
  readonly dispatcher: Dispatcher
  /** Longest wait until an uploaded file is processed. Default 60,000. */
  readonly processingTimeoutMs?: number
  /** Default 1,000. */
  readonly pollIntervalMs?: number
}

const ProviderFile = z.looseObject({
  id: z.string(),
  filename: z.string().optional(),
  /** Some compatible providers have no such state: their files can be used at once. */
  status: z.string().optional(),
})
export type ProviderFile = z.infer<typeof ProviderFile>

export type FileToUpload = { readonly fileName: string; readonly bytes: Uint8Array; readonly mime: string }

const MAX_ANSWER_BYTES = 1024 * 1024
const REQUEST_TIMEOUT_MS = 60_000
const FILE_ID = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}$/

/**
 * Stores a file with the provider, for use in model requests (purpose `assistants`).
 *
 * @throws AttachmentError `upload_failed` or `blocked`, or the reason of `signal`.
 */
export async function uploadProviderFile(
  access: ProviderFilesAccess,
  { fileName, bytes, mime }: FileToUpload,
  signal?: AbortSignal,
): Promise<ProviderFile> {
  const body = new FormData()
  body.set('purpose', 'assistants')
  body.set('file', new Blob([Buffer.from(bytes)], { type: mime }), fileName)
  const failed = `Upload failed: ${shown(fileName)}`
  const answer = await ask(access, { method: 'POST', path: 'files', body, failed }, signal)
  return parseFile(answer, failed)
}

/** Looks a file up; undefined when the provider does not know it. */
export async function findProviderFile(
  access: ProviderFilesAccess,
  id: string,
  signal?: AbortSignal,
): Promise<ProviderFile | undefined> {
  if (!FILE_ID.test(id)) return undefined
  const failed = `File lookup failed: ${id}`
  const answer = await ask(access, { method: 'GET', path: `files/${id}`, failed }, signal)
  return answer.status === 404 ? undefined : parseFile(answer, failed)
}

/**
 * The content of a stored file. Some providers do not give out what was uploaded for agents.
 *
 * @param maxBytes - A larger file is an error.
 * @throws AttachmentError `download_failed` or `too_large`, or the reason of `signal`.
 */
export async function readProviderFile(
  access: ProviderFilesAccess,
  { id, filename = id }: ProviderFile,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal?: AbortSignal },
): Promise<Uint8Array> {
  const failed = `File cannot be read: ${shown(filename)}`
  const question = { method: 'GET', path: `files/${id}/content`, failed, maxBytes } as const
  const { status, bytes } = await ask(access, question, signal)
  if (status !== 200) {
    const detail = bytes.subarray(0, 2000).toString()
    throw new AttachmentError('download_failed', `${failed} (status ${status})`, { detail })
  }
  if (bytes.byteLength > maxBytes) throw new AttachmentError('too_large', `File is too large: ${shown(filename)}`)
  return bytes
}

/**
 * Waits until the provider has processed an uploaded file.
 *
 * @throws AttachmentError `processing_failed`, `processing_timeout` or `upload_failed`, or the reason of `signal`.
 */
export async function waitForProviderFile(
  access: ProviderFilesAccess,
  file: ProviderFile,
  signal?: AbortSignal,
): Promise<void> {
  const { processingTimeoutMs = 60_000, pollIntervalMs = 1_000 } = access
  const expired = AbortSignal.timeout(processingTimeoutMs)
  const stop = AbortSignal.any([expired, ...(signal ? [signal] : [])])
  try {
    for (let current: ProviderFile | undefined = file; ; current = await findProviderFile(access, file.id, stop)) {
      if (current?.status === 'error' || !current) {
        throw new AttachmentError('processing_failed', `File processing failed: ${shown(file.id)}`)
      }
      if (current.status === undefined || current.status === 'processed') return
      await pause(pollIntervalMs, undefined, { signal: stop })
    }
  } catch (error) {
    signal?.throwIfAborted()
    if (!expired.aborted) throw error
    throw new AttachmentError('processing_timeout', `File processing timed out: ${shown(file.id)}`, { cause: error })
  }
}

/** Deletes a file from the provider. A file that it does not know counts as deleted. */
export async function deleteProviderFile(access: ProviderFilesAccess, id: string, signal?: AbortSignal): Promise<void> {
  if (!FILE_ID.test(id)) return
  const failed = `File deletion failed: ${id}`
  const answer = await ask(access, { method: 'DELETE', path: `files/${id}`, failed }, signal)
  if (answer.status !== 404) requireSuccess(answer, failed)
}

type Question = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly body?: FormData
  /** Largest answer. One byte more is read, so that the excess shows. Default 1 MiB. */
  readonly maxBytes?: number
  /** The sentence for the caller when there is no answer. */
  readonly failed: string
}
type Answer = { readonly status: number; readonly bytes: Buffer }

/** Redirects are not followed, so the key goes nowhere else. */
async function ask(access: ProviderFilesAccess, question: Question, signal: AbortSignal | undefined): Promise<Answer> {
  const { method, path, body, failed, maxBytes = MAX_ANSWER_BYTES } = question
  const limits = [AbortSignal.timeout(REQUEST_TIMEOUT_MS), ...(signal ? [signal] : [])]
  try {
    const response = await request(endpointUrl(access.baseUrl, path), {
      method,
      headers: { ...(access.apiKey && { authorization: `Bearer ${access.apiKey}` }), ...access.headers },
      dispatcher: access.dispatcher,
      signal: AbortSignal.any(limits),
      ...(body && { body }),
    })
    return { status: response.statusCode, bytes: await readUpTo(response.body, maxBytes + 1) }
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof EgressError && error.reason === 'blocked') {
      const message = "The address of the model's provider is not allowed."
      throw new AttachmentError('blocked', message, { detail: error.detail, cause: error })
    }
    throw new AttachmentError('upload_failed', failed, { detail: String(error), cause: error })
  }
}

async function readUpTo(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    sizeBytes += chunk.byteLength
    if (sizeBytes >= maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes)
}

function requireSuccess({ status, bytes }: Answer, failed: string): void {
  if (status >= 200 && status < 300) return
  const detail = bytes.subarray(0, 2000).toString()
  throw new AttachmentError('upload_failed', `${failed} (status ${status})`, { detail })
}

function parseFile(answer: Answer, failed: string): ProviderFile {
  requireSuccess(answer, failed)
  try {
    return ProviderFile.parse(JSON.parse(answer.bytes.toString()))
  } catch (error) {
    const detail = answer.bytes.subarray(0, 2000).toString()
    throw new AttachmentError('upload_failed', failed, { detail, cause: error })
  }
}
