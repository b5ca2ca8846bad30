/** How an agent gets a file: as a document or an image in its input, or as a file for its tools. */
export type AttachmentKind = 'input_file' | 'input_image' | 'agent_file'

export type FileType = { readonly extension: string; readonly mime: string; readonly kind: AttachmentKind }

const OFFICE = 'application/vnd.openxmlformats-officedocument'

// The list is part of the interface of both servers; the MIME types are those that model providers expect.
export const FILE_TYPES: ReadonlyMap<string, FileType> = new Map(
  (
    [
      ['.pdf', 'application/pdf', 'input_file'],
      ['.jpeg', 'image/jpeg', 'input_image'],
      ['.jpg', 'image/jpeg', 'input_image'],
      ['.gif', 'image/gif', 'input_image'],
      ['.png', 'image/png', 'input_image'],
      ['.c', 'text/x-c', 'agent_file'],
      ['.cs', 'text/x-csharp', 'agent_file'],
      ['.cpp', 'text/x-c++', 'agent_file'],
      ['.csv', 'text/csv', 'agent_file'],
      ['.html', 'text/html', 'agent_file'],
      ['.java', 'text/x-java', 'agent_file'],
      ['.json', 'application/json', 'agent_file'],
      ['.php', 'text/x-php', 'agent_file'],
      ['.py', 'text/x-python', 'agent_file'],
      ['.rb', 'text/x-ruby', 'agent_file'],
      ['.css', 'text/css', 'agent_file'],
      ['.js', 'text/javascript', 'agent_file'],
      ['.sh', 'application/x-sh', 'agent_file'],
      ['.ts', 'application/typescript', 'agent_file'],
      ['.pkl', 'application/octet-stream', 'agent_file'],
      ['.tar', 'application/x-tar', 'agent_file'],
      ['.xlsx', `${OFFICE}.spreadsheetml.sheet`, 'agent_file'],
      ['.xml', 'text/xml', 'agent_file'],
      ['.zip', 'application/zip', 'agent_file'],
      ['.doc', 'application/msword', 'agent_file'],
      ['.docx', `${OFFICE}.wordprocessingml.document`, 'agent_file'],
      ['.md', 'text/markdown', 'agent_file'],
      ['.pptx', `${OFFICE}.presentationml.presentation`, 'agent_file'],
      ['.tex', 'text/x-tex', 'agent_file'],
      ['.txt', 'text/plain', 'agent_file'],
    ] as const
  ).map(([extension, mime, kind]) => [extension, Object.freeze({ extension, mime, kind })]),
)

/** The extension of a file name or path in lower case, with its dot; empty when there is none. */
export function extensionOf(name: string): string {
  return /[^./\\](\.[a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
}

/** @param extension - With its dot, in any case. */
export function findFileType(extension: string): FileType | undefined {
  return FILE_TYPES.get(extension.toLowerCase())
}

/** The supported type that the content has by its magic bytes. Text has none, so it is never recognised. */
export async function sniffFileType(bytes: Uint8Array): Promise<FileType | undefined> {
  const sniffed = await sniff(bytes)
  return sniffed && findFileType(`.${sniffed.ext}`)
}

// Formats that share a container, so that the container is accepted as well.
const CONTAINERS: Readonly<Record<string, readonly string[]>> = {
  '.docx': ['docx', 'zip'],
  '.xlsx': ['xlsx', 'zip'],
  '.pptx': ['pptx', 'zip'],
  '.doc': ['cfb', 'rtf'],
  '.tar': ['tar'],
  '.pdf': ['pdf'],
  '.jpeg': ['jpg'],
  '.jpg': ['jpg'],
  '.gif': ['gif'],
  '.png': ['png'],
}

/**
 * Whether the content can be what the extension says: by magic bytes, or by being text where text is expected.
 *
 * Pickles have no signature, and any archive that begins like a ZIP file counts as one.
 */
export async function contentMatches(extension: string, bytes: Uint8Array): Promise<boolean> {
  const type = findFileType(extension)
  if (!type) return false
  const formats = CONTAINERS[type.extension]
  if (formats) return formats.includes((await sniff(bytes))?.ext ?? '')
  if (type.extension === '.zip') return bytes[0] === 0x50 && bytes[1] === 0x4b
  return type.extension === '.pkl' || isText(bytes)
}

const TEXT_SAMPLE_BYTES = 64 * 1024

/** Text holds no zero byte, unless it is UTF-16 and says so. */
function isText(bytes: Uint8Array): boolean {
  const isUtf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
  return isUtf16 || !bytes.subarray(0, TEXT_SAMPLE_BYTES).includes(0)
}

/** The library is loaded with the first file, because most processes see none. */
async function sniff(bytes: Uint8Array): Promise<{ readonly ext: string } | undefined> {
  const { fileTypeFromBuffer } = await import('file-type')
  return fileTypeFromBuffer(bytes)
}
