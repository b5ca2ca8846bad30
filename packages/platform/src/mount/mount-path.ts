import { isFileName } from '@bureau/runtime'

/** Where agents, and callers, find the mount of their integration. */
export const MOUNT_ROOT = '/app/mnt'

const MAX_PATH_BYTES = 1024

/**
 * The name of a file within its mount; undefined unless the path is canonical.
 *
 * There is one spelling of each path: `/app/mnt/` and at most 1,024 bytes of normalised (NFC) text without control,
 * zero-width or bidirectional characters, backslashes, and empty, `.` or `..` segments. Nothing is percent-decoded.
 */
export function nameInMount(path: string): string | undefined {
  if (!path.startsWith(`${MOUNT_ROOT}/`) || Buffer.byteLength(path) > MAX_PATH_BYTES) return undefined
  const name = path.slice(MOUNT_ROOT.length + 1)
  return isFileName(name) ? name : undefined
}

/** The beginning that names of files under a folder (or the file itself) have; undefined unless it is canonical. */
export function prefixInMount(path: string): string | undefined {
  if (path === MOUNT_ROOT || path === `${MOUNT_ROOT}/`) return ''
  const isFolder = path.endsWith('/')
  const name = nameInMount(isFolder ? path.slice(0, -1) : path)
  return name === undefined || !isFolder ? name : `${name}/`
}

export function pathOf(nameInMount: string): string {
  return `${MOUNT_ROOT}/${nameInMount}`
}
