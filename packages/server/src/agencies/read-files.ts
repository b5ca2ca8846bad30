import type { RunInput } from '@bureau/framework'
import type { RunRequest } from '@bureau/protocol'
import {
  type Attachment,
  AttachmentError,
  deleteUploads,
  extensionOf,
  findFileType,
  findProviderFile,
  type FileType,
  type GuardedDispatcher,
  type Logger,
  type ProviderFilesAccess,
  readAttachments,
  readProviderFile,
  shown,
  uploadAttachments,
} from '@bureau/runtime'
import { fileIdsFailure, fileUrlsFailure } from './attachment-failure.ts'
import { contentParts, isReadable, type RequestFile, sourcesItem } from './file-parts.ts'

/** How a server treats the files of requests. */
export type FileSettings = {
  /** For downloads. */
  readonly dispatcher: GuardedDispatcher
  /** Local paths are refused when empty. */
  readonly allowedLocalFileDirs: readonly string[]
  /** Later turns refer to uploaded files by id, so they stay unless the operator wants them gone. */
  readonly deleteUploadsAfterRun: boolean
  readonly log: Logger
}

type FileFields = Pick<RunRequest, 'message' | 'file_ids' | 'file_urls'>
type ReadFiles = NonNullable<RunInput['readFiles']>
type Service = Parameters<ReadFiles>[0]
type Read = Awaited<ReturnType<ReadFiles>>

const MAX_FILE_BYTES = 32 * 1024 * 1024

/**
 * A run's input with the files of its request, which the run reads before anything else: `file_ids` first, then
 * `file_urls`, all of them or none.
 *
 * Where messages can refer to stored files, `file_urls` are uploaded to the endpoint of this request and referred to by
 * id; code and data files go to a code interpreter of this run. Elsewhere messages carry the contents, texts as text.
 */
export function withFiles(input: RunInput, request: FileFields, settings: FileSettings): RunInput {
  if (!request.file_ids?.length && !request.file_urls) return input
  return { ...input, readFiles: (service, signal) => new RequestFiles(request, settings, service).read(signal) }
}

class RequestFiles {
  readonly #request: FileFields
  readonly #settings: FileSettings
  readonly #service: Service
  readonly #access: ProviderFilesAccess | undefined

  constructor(request: FileFields, settings: FileSettings, service: Service) {
    this.#request = request
    this.#settings = settings
    this.#service = service
    this.#access = service.endpoint
  }

  async read(signal: AbortSignal): Promise<Read> {
    const { file_ids: ids, file_urls: urls } = this.#request
    let describe = fileIdsFailure
    try {
      const stored = await Promise.all([...new Set(ids ?? [])].map((id) => this.#find(id, signal)))
      describe = fileUrlsFailure
      const { files, ...fromUrls } = urls ? await this.#fetch(urls, signal) : { files: [] }
      return { ...fromUrls, ...this.#attach([...stored, ...files]) }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof AttachmentError) return { refused: describe(error), cause: error }
      throw error
    }
  }

  async #find(id: string, signal: AbortSignal): Promise<RequestFile> {
    const access = this.#access
    if (!access) throw new AttachmentError('upload_failed', 'file_ids need a model provider with a file service.')
    const file = await findProviderFile(access, id, signal)
    if (!file) throw new AttachmentError('download_failed', `The model provider knows no file ${shown(id)}.`)
    const { filename: fileName = '' } = file
    const type = requireType(fileName, id)
    const carried = this.#mustCarry(type) && isReadable(type)
    const bytes = carried ? await readProviderFile(access, file, { maxBytes: MAX_FILE_BYTES, signal }) : undefined
    return { fileName, type, id: file.id, bytes }
  }

  async #fetch(sources: NonNullable<FileFields['file_urls']>, signal: AbortSignal): Promise<Fetched> {
    const { dispatcher, allowedLocalFileDirs } = this.#settings
    const attachments = await readAttachments(sources, { dispatcher, allowedLocalFileDirs, signal })
    const ids = await this.#upload(attachments, signal)
    const named = attachments.map(({ name, source }, index) => ({ name, source, id: ids[index] }))
    const release = this.#release(ids)
    return {
      files: attachments.map((file, index) => ({
        fileName: file.fileName,
        type: file,
        id: ids[index],
        bytes: this.#mustCarry(file) ? file.bytes : undefined,
      })),
      fileIdsMap: Object.fromEntries(named.flatMap(({ name, id }) => (id === undefined ? [] : [[name, id]]))),
      ...(named.length > 0 && { attachmentSources: sourcesItem(named) }),
      ...(release && { release }),
    }
  }

  /** Ids in the order of the attachments; none where nothing can refer to stored files. */
  async #upload(attachments: readonly Attachment[], signal: AbortSignal): Promise<readonly string[]> {
    if (!this.#access || !this.#service.readsStoredFiles) return []
    try {
      return (await uploadAttachments(this.#access, attachments, signal)).map(({ id }) => id)
    } catch (error) {
      if (!(error instanceof AttachmentError) || error.problem !== 'blocked') throw error
      const message = 'client_config.base_url: The address of the URL is not allowed.'
      throw new AttachmentError('blocked', message, { detail: error.detail, cause: error })
    }
  }

  /** True: the message holds the content, because the model cannot get at a stored file of this kind. */
  #mustCarry({ kind }: FileType): boolean {
    return kind === 'agent_file' ? !this.#service.runsCode : !this.#service.readsStoredFiles
  }

  #attach(
    files: readonly RequestFile[],
  ): Pick<RunInput, 'attachments'> & { codeFiles: { id: string; name: string }[] } {
    const { message } = this.#request
    if (typeof message !== 'string' && message.at(-1)?.['role'] !== 'user') {
      this.#settings.log.warn('files are not attached: the last item of the message is not from the user')
      return { attachments: [], codeFiles: [] }
    }
    const forCode = files.filter(({ type }) => type.kind === 'agent_file' && this.#service.runsCode)
    return {
      attachments: contentParts(files.filter((file) => !forCode.includes(file))),
      codeFiles: forCode.map(({ id = '', fileName }) => ({ id, name: fileName })),
    }
  }

  #release(ids: readonly string[]): (() => void) | undefined {
    const access = this.#access
    const { deleteUploadsAfterRun, log } = this.#settings
    if (!access || !deleteUploadsAfterRun || ids.length === 0) return undefined
    return () => {
      void deleteUploads(access, ids).then((failed) => {
        for (const { id, error } of failed) log.warn({ err: error, fileId: id }, 'an uploaded file was not deleted')
      })
    }
  }
}

type Fetched = Pick<RunInput, 'fileIdsMap' | 'attachmentSources'> & {
  readonly files: readonly RequestFile[]
  readonly release?: () => void
}

function requireType(fileName: string, id: string): FileType {
  const extension = extensionOf(fileName)
  const type = findFileType(extension)
  if (type) return type
  const message = `Unsupported file extension: ${extension || 'none'} for file ${shown(fileName || id)}`
  throw new AttachmentError('unsupported_type', message)
}
