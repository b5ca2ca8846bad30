import { randomBytes } from 'node:crypto'
import { checkUrl, type UrlRules } from '../egress/check-url.ts'
import { ByteBudget } from '../egress/byte-budget.ts'
import { EgressError, type EgressReason } from '../egress/egress-error.ts'
import type { GuardedDispatcher } from '../egress/guarded-dispatcher.ts'
import { safeFetch } from '../egress/safe-fetch.ts'
import { AttachmentError, shown, type AttachmentProblem } from './attachment-error.ts'
import { classifySource, requireRemoteScheme } from './classify-source.ts'
import { extensionOf, findFileType, sniffFileType, type AttachmentKind, type FileType } from './file-types.ts'
import { openLocalFile, type LocalFile } from './local-files.ts'
import { nameAttachments, remotePathOf, type AttachmentSources, type NamedSource } from './name-attachments.ts'

export type Attachment = NamedSource & {
  /** The name to store it under: a local file's own, or one made from the name for a remote file. */
  readonly fileName: string
  readonly bytes: Uint8Array
  readonly mime: string
  /** Lower case, with its dot; one of the supported ones. */
  readonly extension: string
  readonly kind: AttachmentKind
}

export type ReadAttachmentsOptions = {
  readonly dispatcher: GuardedDispatcher
  /** Local paths are refused when absent. */
  readonly allowedLocalFileDirs?: readonly string[]
  /** Default 50. */
  readonly maxFiles?: number
  /** Default 32 MiB. */
  readonly maxFileBytes?: number
  /** All attachments of the request together. Default 64 MiB. */
  readonly maxTotalBytes?: number
  /** For all downloads together, because they run in parallel. Default 30,000. */
  readonly timeoutMs?: number
  /** Default 0: a redirect is a failure. */
  readonly maxRedirects?: number
  /** Ports of URLs. Default: all. */
  readonly ports?: readonly number[]
  readonly signal?: AbortSignal
}

type Planned = NamedSource & ({ readonly local: LocalFile } | { readonly url: URL })
type Transfer = { readonly budget: ByteBudget; readonly signal: AbortSignal }

const MIB = 1024 * 1024
const SCHEMES = ['http', 'https'] as const

/**
 * Loads every attachment of a request, or none.
 *
 * Nothing is sent over the network before all sources are classified, all local files opened and all URLs checked.
 * The first failure stops the other transfers.
 *
 * @throws AttachmentError, for the source that failed first.
 * @throws The reason of `signal` when it aborts.
 */
export async function readAttachments(
  sources: AttachmentSources,
  options: ReadAttachmentsOptions,
): Promise<Attachment[]> {
  const { maxFiles = 50 } = options
  const { length } = Object.keys(sources)
  if (length > maxFiles) throw new AttachmentError('too_many', `At most ${maxFiles} files are allowed.`)
  const named = nameAttachments(sources)
  const localFiles = new Map<NamedSource, LocalFile>()
  try {
    for (const entry of named) {
      if (classifySource(entry.source).place === 'local') localFiles.set(entry, await openChecked(entry, options))
    }
    const planned = named.map((entry): Planned => {
      const local = localFiles.get(entry)
      return local ? { ...entry, local } : { ...entry, url: requireRemote(entry, options) }
    })
    return await loadAll(planned, options)
  } finally {
    await Promise.all([...localFiles.values()].map((file) => file.close()))
  }
}

async function openChecked({ source }: NamedSource, options: ReadAttachmentsOptions): Promise<LocalFile> {
  const file = await openLocalFile(source, options.allowedLocalFileDirs)
  try {
    requireType(extensionOf(file.name), file.name)
    const { maxFileBytes = 32 * MIB } = options
    if (file.sizeBytes > maxFileBytes) throw new AttachmentError('too_large', `File is too large: ${shown(file.name)}`)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

function requireRemote({ name, source }: NamedSource, options: ReadAttachmentsOptions): URL {
  requireRemoteScheme(source)
  if (/[\\/]|^[a-z]:/i.test(name) || name === '.' || name === '..' || name.includes('\0')) {
    throw new AttachmentError('invalid_name', 'Remote filename must not contain path components')
  }
  const declared = extensionOf(name) || extensionOf(remotePathOf(source))
  if (declared !== '') requireType(declared, name)
  try {
    return checkUrl(source, urlRules(options))
  } catch (error) {
    throw asAttachmentError(error, source)
  }
}

async function loadAll(planned: readonly Planned[], options: ReadAttachmentsOptions): Promise<Attachment[]> {
  const { maxTotalBytes = 64 * MIB } = options
  const failed = new AbortController()
  const signal = AbortSignal.any([failed.signal, ...(options.signal ? [options.signal] : [])])
  const transfer: Transfer = { budget: new ByteBudget(maxTotalBytes), signal }
  const loads = planned.map(async (entry) => {
    try {
      return await load(entry, options, transfer)
    } catch (error) {
      failed.abort(error) // Only the first call counts.
      throw error
    }
  })
  // The transfers end before the error leaves, so that nothing goes on behind the caller's back.
  await Promise.allSettled(loads)
  options.signal?.throwIfAborted()
  failed.signal.throwIfAborted()
  return Promise.all(loads)
}

async function load(entry: Planned, options: ReadAttachmentsOptions, transfer: Transfer): Promise<Attachment> {
  const { name, source } = entry
  const { maxFileBytes: maxBytes = 32 * MIB } = options
  if ('local' in entry) {
    const fileName = entry.local.name
    const type = requireType(extensionOf(fileName), fileName)
    const bytes = await entry.local.read({ maxBytes, ...transfer })
    return { name, source, fileName, bytes, ...(await describe(type, bytes)) }
  }
  const bytes = await download(entry.url, { source, maxBytes }, options, transfer)
  const declared = extensionOf(name) || extensionOf(remotePathOf(source))
  const type = declared === '' ? await sniffFileType(bytes) : requireType(declared, name)
  if (!type) throw new AttachmentError('no_extension', `No extension detected for ${shown(source)}`)
  return { name, source, fileName: storedNameOf(name, type), bytes, ...(await describe(type, bytes)) }
}

async function download(
  url: URL,
  { source, maxBytes }: { source: string; maxBytes: number },
  options: ReadAttachmentsOptions,
  transfer: Transfer,
): Promise<Uint8Array> {
  const { timeoutMs = 30_000, maxRedirects = 0 } = options
  const limits = { maxBytes, maxRedirects, headersTimeoutMs: timeoutMs, totalTimeoutMs: timeoutMs, ...transfer }
  try {
    return await safeFetch(url.href, { dispatcher: options.dispatcher, ...urlRules(options), ...limits })
  } catch (error) {
    throw asAttachmentError(error, source)
  }
}

function urlRules({ dispatcher, ports }: ReadAttachmentsOptions): UrlRules {
  return { policy: dispatcher.policy, schemes: SCHEMES, ...(ports && { ports }) }
}

function requireType(extension: string, name: string): FileType {
  const type = findFileType(extension)
  if (type) return type
  const message = `Unsupported file extension: ${extension || 'none'} for file ${shown(name)}`
  throw new AttachmentError('unsupported_type', message)
}

/** Images are what their bytes say, since a model refuses a PNG that is called JPEG. */
async function describe(type: FileType, bytes: Uint8Array): Promise<FileType> {
  const sniffed = type.kind === 'input_image' ? await sniffFileType(bytes) : undefined
  return sniffed?.kind === 'input_image' ? { ...type, mime: sniffed.mime } : type
}

/** Unique, so that two remote files of one name can be told apart where they are stored. */
function storedNameOf(name: string, type: FileType): string {
  const stem = name.slice(0, name.length - extensionOf(name).length).replace(/[\p{Cc}\p{Cf}]/gu, '_')
  return `${Array.from(stem).slice(0, 50).join('')}_${randomBytes(4).toString('hex')}${type.extension}`
}

const PROBLEMS: Readonly<Record<EgressReason, { problem: AttachmentProblem; says: (url: string) => string }>> = {
  invalid_url: { problem: 'invalid_url', says: (url) => `Invalid URL: ${url}` },
  unsupported_scheme: { problem: 'unsupported_scheme', says: (url) => `Unsupported URL scheme: ${url}` },
  blocked: { problem: 'blocked', says: (url) => `URL is not allowed: ${url}` },
  failed: { problem: 'download_failed', says: (url) => `Download failed: ${url}` },
  too_large: { problem: 'too_large', says: (url) => `File is too large: ${url}` },
  timeout: { problem: 'timeout', says: (url) => `Download timed out: ${url}` },
}

function asAttachmentError(error: unknown, source: string): unknown {
  if (!(error instanceof EgressError)) return error
  const { problem, says } = PROBLEMS[error.reason]
  const status = error.status === undefined ? '' : ` (status ${error.status})`
  const detail = error.detail ?? error.message
  return new AttachmentError(problem, says(shown(source)) + status, { detail, cause: error })
}
