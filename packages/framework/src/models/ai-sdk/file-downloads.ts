import type { LanguageModelV4FilePart, LanguageModelV4Prompt } from '@ai-sdk/provider'
import { ConfigError } from '@bureau/protocol'
import { type Dispatcher, fetch as undiciFetch } from 'undici'
import { limitedResponse } from '../../limited-response.ts'

/** For addresses that callers name. */
export type FileAccess = {
  /** Connects to addresses that are open to callers, and to no others. */
  readonly dispatcher: Dispatcher
  /** @throws when a caller may not name this address; the message is fit for the caller. */
  readonly checkUrl: (url: string) => void
}

type SupportedUrls = Readonly<Record<string, readonly RegExp[]>>

const MAX_FILES = 100
const MAX_FILE_BYTES = 20_971_520
/** Of all files of a prompt, more than providers take in one. */
const MAX_BYTES_TOGETHER = 67_108_864
const MAX_REDIRECTS = 5
const TIME_LIMIT_MS = 30_000

type FileData = LanguageModelV4FilePart['data']
type AnyFile = { readonly mediaType: string; readonly data: FileData }

/**
 * The prompt with the content of those files whose addresses the model's provider does not open itself.
 *
 * @throws ConfigError an address may not be opened, or does not give a file.
 */
export async function withFiles(
  prompt: LanguageModelV4Prompt,
  supported: SupportedUrls,
  download: (url: URL) => Promise<AnyFile>,
): Promise<LanguageModelV4Prompt> {
  const loaded = async <File extends AnyFile>(file: File): Promise<File> => {
    if (file.data.type !== 'url' || isSupported(file.data.url, file.mediaType, supported)) return file
    const { data, mediaType } = await download(new URL(file.data.url))
    return { ...file, data, mediaType: isWhole(file.mediaType) ? file.mediaType : mediaType }
  }
  const messages = prompt.map(async (message) => {
    if (message.role !== 'user' && message.role !== 'tool') return message
    const content = message.content.map(async (part) => {
      if (part.type === 'file') return loaded(part)
      if (part.type !== 'tool-result' || part.output.type !== 'content') return part
      const value = part.output.value.map(async (each) => (each.type === 'file' ? loaded(each) : each))
      return { ...part, output: { ...part.output, value: await Promise.all(value) } }
    })
    return { ...message, content: await Promise.all(content) } as typeof message
  })
  return Promise.all(messages)
}

/** The patterns are meant for addresses in lower case; `*` stands for any type, or any kind of it. */
function isSupported({ href }: URL, mediaType: string, supported: SupportedUrls): boolean {
  return Object.entries(supported).some(([pattern, urls]) => {
    const start = pattern
      .toLowerCase()
      .replace(/^\*(\/\*)?$/, '')
      .replace(/\*$/, '')
    return mediaType.toLowerCase().startsWith(start) && urls.some((url) => url.test(href.toLowerCase()))
  })
}

function isWhole(mediaType: string): boolean {
  return mediaType.includes('/') && !mediaType.endsWith('/*')
}

/**
 * What downloads the files of one prompt, whose number and length callers choose: all together have limits, and with one that
 * fails the others are given up.
 *
 * The function that this returns throws ConfigError that names the address and says why; the reason of the signal.
 */
export function fileDownloads(access: FileAccess, signal: AbortSignal): (url: URL) => Promise<AnyFile> {
  const failed = new AbortController()
  const left = { files: MAX_FILES, bytes: MAX_BYTES_TOGETHER }
  return async (url) => {
    try {
      if (--left.files < 0) throw refusal(url, `at most ${MAX_FILES} files are downloaded for a request`)
      return await downloadFile(url, access, { left, signal: AbortSignal.any([signal, failed.signal]) })
    } catch (error) {
      failed.abort(error)
      throw error
    }
  }
}

type Limits = { readonly left: { bytes: number }; readonly signal: AbortSignal }

async function downloadFile(
  url: URL,
  { dispatcher, checkUrl }: FileAccess,
  { left, signal }: Limits,
): Promise<AnyFile> {
  const limits = AbortSignal.any([signal, AbortSignal.timeout(TIME_LIMIT_MS)])
  try {
    for (let target = url, redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      checkUrl(target.href)
      const answer = await undiciFetch(target, { dispatcher, redirect: 'manual', signal: limits })
      const location = answer.headers.get('location')
      if (answer.status < 300 || answer.status > 399 || location === null) return await readFile(answer, left)
      await answer.body?.cancel()
      target = new URL(location, target)
    }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ConfigError) throw error
    throw refusal(url, `it could not be opened${codeOf(error)}`, error)
  }
  throw refusal(url, 'it leads from one address to the next')
}

async function readFile(answer: Response, left: Limits['left']): Promise<AnyFile> {
  if (!answer.ok) {
    await answer.body?.cancel()
    throw refusal(new URL(answer.url), `the server answered with the status ${answer.status}`)
  }
  const mediaType = answer.headers.get('content-type')?.split(';')[0]?.trim() || 'application/octet-stream'
  const chunks: Uint8Array[] = []
  for await (const chunk of limitedResponse(answer, MAX_FILE_BYTES).body ?? []) {
    left.bytes -= chunk.byteLength
    if (left.bytes < 0) throw refusal(new URL(answer.url), TOO_LARGE_TOGETHER)
    chunks.push(chunk)
  }
  return { mediaType, data: { type: 'data', data: Buffer.concat(chunks).toString('base64') } }
}

const TOO_LARGE_TOGETHER = `the files of a request have at most ${MAX_BYTES_TOGETHER} bytes together`

/** The system's word for what failed, such as ` (ECONNREFUSED)`; `fetch` hides it in the cause of its error. */
function codeOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown } }
  return typeof cause?.code === 'string' ? ` (${cause.code})` : ''
}

/** Without the query, which may hold a key. */
function refusal({ origin, pathname }: URL, reason: string, cause?: unknown): ConfigError {
  return new ConfigError(`The file at ${origin}${pathname} cannot be given to the model: ${reason}.`, { cause })
}
