import type { AgencyUpload, ChatMessage, PlatformChat, PlatformRun, StoredUpload } from '@bureau/protocol'
import { BureauError } from './error.ts'
import type { PlatformOptions } from './client.ts'
import { ask, type Asking, askingOf, retrying } from './retry.ts'
import { send } from './send.ts'
import { get, post } from './server.ts'

/** A part of a list. `nextCursor` is the `cursor` of the next part; null: this is the last one. */
export type Page<Item> = {
  readonly data: readonly Item[]
  readonly hasMore: boolean
  readonly nextCursor: string | null
}

type Query = Readonly<Record<string, string | number>>

export type UploadOptions = {
  /** Default: the name of the file. */
  readonly name?: string | undefined
  /** Called with the bytes that have arrived, out of all. */
  readonly onProgress?: ((sent: number, total: number) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** What the platform keeps of an integration. Every call throws a `BureauError` when it is refused. */
export type PlatformApi = {
  readonly chats: {
    /** Latest activity first. Query as `GET /v1/chats` has it, e.g. `consumerId`, `limit`, `cursor`. */
    list(query?: Query): Promise<Page<PlatformChat>>
    get(chatId: string): Promise<PlatformChat>
    update(
      chatId: string,
      changes: { readonly title?: string | null | undefined; readonly aliasChatId?: string | null | undefined },
    ): Promise<PlatformChat>
    delete(chatId: string): Promise<void>
    /** Oldest first, unless the query says `order: 'desc'`. */
    messages(chatId: string, query?: Query): Promise<Page<ChatMessage>>
  }
  readonly runs: {
    /** Newest first. Query as `GET /v1/runs` has it, e.g. `chatId`, `status`. */
    list(query?: Query): Promise<Page<PlatformRun>>
    get(runId: string): Promise<PlatformRun>
  }
  readonly files: {
    /**
     * Sends a file into the mount of the integration, in parts, each of them again when its connection breaks.
     *
     * @returns What a message has in its `body` as `sandboxFiles: [{ name, path }]`.
     * @throws BureauError
     */
    upload(
      file: Blob & { readonly name?: string },
      options?: UploadOptions,
    ): Promise<Pick<StoredUpload, 'name' | 'path'>>
  }
}

/** Bytes that are sent at once. */
const PART_BYTES = 1_048_576

const OFFSET = 'upload-offset'

/** The chats, runs and files of an integration; a page that shows only answers need not load it. @throws TypeError as `createClient`. */
export function platformApi(options: Omit<PlatformOptions, 'storage'>): PlatformApi {
  const { integration } = options
  const ways = askingOf(options)
  const chat = (id: string): string => `/v1/chats/${encodeURIComponent(id)}`
  const list = <Item>(path: string, query: Query = {}): Promise<Page<Item>> =>
    ask(ways, get(`${path}?${String(new URLSearchParams(query as Record<string, string>))}`))
  return {
    chats: {
      list: (query) => list('/v1/chats', { apiIntegrationId: integration, ...query }),
      get: (chatId) => ask(ways, get(chat(chatId))),
      update: (chatId, changes) => ask(ways, { ...post(chat(chatId), changes), method: 'PATCH' }),
      delete: async (chatId) => void (await send(ways.connection, { method: 'DELETE', path: chat(chatId) })),
      messages: (chatId, query) => list(`${chat(chatId)}/messages`, query),
    },
    runs: {
      list: (query) => list('/v1/runs', { apiIntegrationId: integration, ...query }),
      get: (runId) => ask(ways, get(`/v1/runs/${encodeURIComponent(runId)}`)),
    },
    files: {
      upload: (file, options = {}) =>
        upload(ways, integration, file, options).catch((error: unknown) => {
          const { signal } = options
          if (!signal?.aborted) throw error
          throw new BureauError('detached', 'The upload was stopped.', { cause: signal.reason })
        }),
    },
  }
}

async function upload(
  ways: Asking,
  apiIntegrationId: string,
  file: Blob & { readonly name?: string },
  { name = file.name ?? 'file', onProgress, signal }: UploadOptions,
): Promise<Pick<StoredUpload, 'name' | 'path'>> {
  const { size } = file
  const room = await ask<AgencyUpload>(ways, post('/create_agency_upload', { apiIntegrationId, name, size }))
  // The address carries its own token.
  const connection = { url: room.uploadUrl ?? '', fetch: ways.connection.fetch }
  /** Undefined: a part may have arrived though its answer did not. */
  let sent: number | undefined = 0
  const sendPart = async (): Promise<number> => {
    const from = sent ?? Number((await send(connection, { method: 'HEAD', path: '' }, signal)).headers.get(OFFSET))
    const body = file.slice(from, from + PART_BYTES)
    sent = undefined
    const headers = { 'content-type': 'application/offset+octet-stream', [OFFSET]: String(from) }
    if (from < size || size === 0) await send(connection, { method: 'PATCH', path: '', body, headers }, signal)
    return (sent = from + body.size)
  }
  let arrived
  do {
    arrived = await retrying(sendPart, { delaysMs: ways.retryDelaysMs, signal })
    onProgress?.(arrived, size)
  } while (arrived < size)
  return { name: room.name, path: room.path }
}
