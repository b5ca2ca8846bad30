import { ServiceError } from '@bureau/protocol'
import { MOUNT_ROOT, nameInMount } from './mount-path.ts'

/** A file of the mount that a request names. */
export type SandboxFile = { readonly name: string; readonly path: string }

/**
 * Checks the form of the files that a request names. Whether they exist is asked of the mount.
 *
 * @throws ServiceError `invalid_sandbox_file`; the message says which one.
 */
export function checkSandboxFiles(files: readonly SandboxFile[]): void {
  for (const [index, { name, path }] of files.entries()) {
    if (nameInMount(path) === undefined) {
      const message = `sandboxFiles[${index}].path is not a canonical path under ${MOUNT_ROOT}/`
      throw new ServiceError('invalid_sandbox_file', { message })
    }
    if (path.slice(path.lastIndexOf('/') + 1) !== name.normalize('NFC')) {
      const message = `sandboxFiles[${index}].name is not the last part of its path`
      throw new ServiceError('invalid_sandbox_file', { message })
    }
  }
}

/** The note for the model on the files that came with a message; undefined when none did. */
export function sandboxFilesHint(files: readonly SandboxFile[]): string | undefined {
  if (files.length === 0) return undefined
  return `The user has provided these files. Read them with your tools:\n${files.map(({ path }) => path).join('\n')}`
}
