import { posix, win32 } from 'node:path'
import { AttachmentError, shown } from './attachment-error.ts'

/** Where an attachment's source points. A local path may still be relative or of another system. */
type ClassifiedSource =
  | { readonly place: 'local'; readonly path: string }
  | { readonly place: 'remote'; readonly source: string }

/**
 * Tells local paths from addresses; the first rule that fits decides and nothing is checked yet.
 *
 * On Windows a UNC path is local. Then: `//host/...` is remote, `file:` and drive letters are local on every system,
 * absolute paths are local, and the rest is remote.
 */
export function classifySource(source: string, platform: NodeJS.Platform = process.platform): ClassifiedSource {
  const isWindows = platform === 'win32'
  if (isWindows && /^[\\/]{2}/.test(source)) return { place: 'local', path: source }
  if (source.startsWith('//')) return { place: 'remote', source }
  if (/^file:/i.test(source)) return { place: 'local', path: pathOfFileUrl(source, isWindows) }
  if (/^[a-z]:/i.test(source)) return { place: 'local', path: source }
  const isAbsolute = isWindows ? win32.isAbsolute(source) : posix.isAbsolute(source)
  return isAbsolute ? { place: 'local', path: source } : { place: 'remote', source }
}

/** @throws AttachmentError `scheme_missing` or `unsupported_scheme`, unless the scheme is http or https. */
export function requireRemoteScheme(source: string): void {
  if (source.startsWith('//')) {
    throw new AttachmentError('scheme_missing', `URL scheme is required for remote file: ${shown(source)}`)
  }
  const scheme = /^\s*([a-z][a-z0-9+.-]*):/i.exec(source)?.[1]?.toLowerCase() ?? 'none'
  if (scheme !== 'http' && scheme !== 'https') {
    throw new AttachmentError('unsupported_scheme', `Unsupported URL scheme: ${shown(scheme)}`)
  }
}

/** The host of a file URL is ignored, as are its query and fragment. */
function pathOfFileUrl(source: string, isWindows: boolean): string {
  const withoutScheme = source.slice('file:'.length).replace(/[?#].*$/s, '')
  const encoded = withoutScheme.replace(/^\/\/[^/]*/, '')
  const path = decodePercent(encoded)
  return isWindows ? path.replace(/^\/(?=[a-z]:)/i, '') : path
}

/** Percent-decodes once; text that is not properly encoded stays as it is. */
export function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
