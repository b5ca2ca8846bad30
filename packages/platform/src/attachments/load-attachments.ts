import { setTimeout as sleep } from 'node:timers/promises'
import type { WireItem } from '@bureau/protocol'
import { ByteBudget, safeFetch } from '@bureau/runtime'
import type { AttachmentRow } from '../chats/attachments.repo.ts'
import type { AttachmentNote } from '../chats/note-attachment.ts'
import type { AttachmentAccess } from './attachment-access.ts'
import { AttachmentFailure, attachmentFailure, downloadFailure } from './attachment-failure.ts'
import { nameFromUrl } from './attachment-name.ts'
import { type ContentPart, filePart, imagePart, missingPart, type UnfitContent } from './content-part.ts'

/**
 * Something that a message of a conversation has attached.
 *
 * `sent: false`: it belongs to a failed response; the model gets a sentence about it and no content. Otherwise its content is
 * fetched from `url` (a credential: keep it out of logs) or read from the owner's blob with that hash.
 */
export type ContextAttachment = Readonly<
  Pick<AttachmentRow, 'id' | 'kind' | 'filename' | 'detail' | 'mime' | 'blobSha256'>
> & { readonly sent: boolean; readonly url: string | null }

export type LoadAttachmentsOptions = {
  readonly access: AttachmentAccess
  /** The owner's blob with this SHA-256; undefined when there is none. */
  readonly readBlob: (sha256: Uint8Array) => Promise<Uint8Array | undefined>
  readonly signal: AbortSignal
  /** Default: that of the machine. */
  readonly clock?: Clock
}

/** Milliseconds, from any beginning. */
export type Clock = {
  readonly now: () => number
  /** Rejects when the signal aborts. */
  readonly sleep: (durationMs: number, signal: AbortSignal) => Promise<void>
}

const MACHINE_CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (durationMs, signal) => sleep(durationMs, undefined, { signal }),
}

/** A failure is reported at a multiple of this time after the start. */
const GRID_MS = 1_000

export type LoadedAttachments = {
  /** The content part of each attachment, by its id. Those of failed responses are only mentioned. */
  readonly parts: ReadonlyMap<string, WireItem>
  /** To be recorded by `noteAttachments`. */
  readonly notes: readonly AttachmentNote[]
}

const MIB = 1024 * 1024
const MAX_IMAGE_BYTES = 20 * MIB
const MAX_FILE_BYTES = 32 * MIB
const MAX_TOTAL_BYTES = 64 * MIB
const MAX_REDIRECTS = 3
const CONCURRENCY = 5

/**
 * Fetches what a run's conversation has attached, or fails as a whole.
 *
 * All attachments are tried, so that one failure names every address that has expired. When a failure is known says
 * little of the network: names, connections and answers fail alike, at whole seconds.
 *
 * @throws AttachmentFailure of the first attachment that failed. @throws The reason of `signal`.
 */
export async function loadAttachments(
  attachments: readonly ContextAttachment[],
  options: LoadAttachmentsOptions,
): Promise<LoadedAttachments> {
  const { clock = MACHINE_CLOCK, signal } = options
  const startedAt = clock.now()
  const budget = new ByteBudget(MAX_TOTAL_BYTES)
  const loaded = await inTurn(attachments, (attachment) => load(attachment, { ...options, budget }))
  const failures = loaded.filter((result) => result instanceof AttachmentFailure)
  const [first] = failures
  if (first) {
    const elapsedMs = clock.now() - startedAt
    await clock.sleep(Math.ceil(elapsedMs / GRID_MS) * GRID_MS - elapsedMs, signal).catch(() => {})
    signal.throwIfAborted()
    const notes = failures.flatMap((failure) => failure.notes)
    throw new AttachmentFailure(first.code, first.message, { cause: first.cause, notes })
  }
  const contents = loaded.flatMap((result) => (result instanceof AttachmentFailure ? [] : [result]))
  return {
    parts: new Map(contents.map(({ id, part }) => [id, part])),
    notes: contents.flatMap(({ note }) => note ?? []),
  }
}

type Loaded = { readonly id: string; readonly part: WireItem; readonly note?: AttachmentNote }
type Loading = LoadAttachmentsOptions & { readonly budget: ByteBudget }

async function load(attachment: ContextAttachment, loading: Loading): Promise<Loaded | AttachmentFailure> {
  const { id } = attachment
  const name = nameOf(attachment)
  if (!attachment.sent) return { id, part: missingPart(name) }
  const bytes = await contentOf(attachment, loading)
  if (bytes instanceof AttachmentFailure) return bytes
  const content = await partOf(attachment, name, bytes)
  if (typeof content === 'string') return attachmentFailure(content, name)
  return { id, part: content.part, note: { id, gone: false, mime: content.mime, bytes: bytes.length } }
}

function partOf(
  { kind, detail }: ContextAttachment,
  name: string,
  bytes: Uint8Array,
): Promise<ContentPart | UnfitContent> | ContentPart | UnfitContent {
  return kind === 'input_image' ? imagePart(bytes, detail ?? 'auto') : filePart(name, bytes)
}

async function contentOf(attachment: ContextAttachment, loading: Loading): Promise<Uint8Array | AttachmentFailure> {
  const { url, blobSha256 } = attachment
  if (url !== null) return download(attachment, url, loading)
  const bytes = blobSha256 && (await loading.readBlob(blobSha256).catch((error: unknown) => error))
  if (!(bytes instanceof Uint8Array)) return attachmentFailure('storage_unavailable', nameOf(attachment), bytes)
  return loading.budget.take(bytes.length) ? bytes : attachmentFailure('attachment_too_large', nameOf(attachment))
}

async function download(
  attachment: ContextAttachment,
  url: string,
  { access, budget, signal }: Loading,
): Promise<Uint8Array | AttachmentFailure> {
  try {
    return await safeFetch(url, {
      dispatcher: access.dispatcher,
      ports: access.ports,
      schemes: ['https'],
      maxBytes: attachment.kind === 'input_image' ? MAX_IMAGE_BYTES : MAX_FILE_BYTES,
      maxRedirects: MAX_REDIRECTS,
      budget,
      signal,
    })
  } catch (error) {
    signal.throwIfAborted()
    return downloadFailure({ id: attachment.id, name: nameOf(attachment) }, error)
  }
}

/** The caller's own name for it, for messages and for the model. */
function nameOf({ filename, url }: ContextAttachment): string {
  return filename ?? (url === null ? 'inline image' : nameFromUrl(new URL(url)))
}

/** Works on a few at a time; the results are in the order of the items. */
async function inTurn<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = []
  const queue = items.entries()
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await work(item)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return results
}
