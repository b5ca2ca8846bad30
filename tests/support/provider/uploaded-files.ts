import type { JsonObject } from './json-object.ts'
import { missingParameter, ProviderError } from './provider-error.ts'
import type { RecordedRequest } from './recorded-request.ts'
import { newId } from './wire.ts'

type UploadedFile = {
  readonly id: string
  readonly filename: string
  readonly purpose: string
  readonly contentType: string
  readonly content: Buffer
}

type NewFile = { filename: string; content: Buffer | string; purpose?: string; contentType?: string }

/** The provider's file service: `/v1/files`. Deleted files are gone, their ids stay in `deleted`. */
export class UploadedFiles {
  readonly #files = new Map<string, UploadedFile>()
  readonly deleted: string[] = []

  get all(): readonly UploadedFile[] {
    return [...this.#files.values()]
  }

  /** Puts a file there without a request. */
  add({ filename, content, purpose = 'user_data', contentType = 'application/octet-stream' }: NewFile): UploadedFile {
    const id = newId('file').replace('_', '-').slice(0, 29)
    const file = { id, filename, purpose, contentType, content: Buffer.from(content) }
    this.#files.set(id, file)
    return file
  }

  /**
   * Answers one request of the file service, as JSON or with a file's bytes.
   *
   * @throws ProviderError 404 for an unknown id, 400 for an upload without a file.
   */
  async answer(request: RecordedRequest): Promise<JsonObject | Buffer> {
    const [id, content] = request.path.replace(/^.*\/files\/?/, '').split('/')
    if (!id) return request.method === 'POST' ? this.#upload(request) : this.#list()
    const file = this.#files.get(id)
    if (!file) throw new ProviderError(`No such File object: ${id}`, { status: 404, param: 'id' })
    if (request.method === 'DELETE') return this.#delete(id)
    return content === 'content' ? file.content : fileObject(file)
  }

  async #upload({ bytes, headers }: RecordedRequest): Promise<JsonObject> {
    const form = await parseForm(bytes, headers['content-type'] ?? '')
    const [file, purpose] = [form.get('file'), form.get('purpose')]
    if (!(file instanceof File)) throw missingParameter('file')
    if (typeof purpose !== 'string') throw missingParameter('purpose')
    const content = Buffer.from(await file.arrayBuffer())
    return fileObject(this.add({ filename: file.name, content, purpose, contentType: file.type }))
  }

  #list(): JsonObject {
    return { object: 'list', data: this.all.map(fileObject), has_more: false }
  }

  #delete(id: string): JsonObject {
    this.#files.delete(id)
    this.deleted.push(id)
    return { id, object: 'file', deleted: true }
  }
}

async function parseForm(bytes: Buffer, contentType: string): Promise<FormData> {
  try {
    return await new Response(new Uint8Array(bytes), { headers: { 'content-type': contentType } }).formData()
  } catch (error) {
    throw new ProviderError('The upload is no multipart form.', { param: String(error) })
  }
}

const fileObject = ({ id, filename, purpose, content }: UploadedFile): JsonObject => ({
  id,
  object: 'file',
  bytes: content.length,
  created_at: Math.floor(Date.now() / 1000),
  expires_at: null,
  filename,
  purpose,
  status: 'processed',
  status_details: null,
})
