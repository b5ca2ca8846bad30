import {
  deleteProviderFile,
  uploadProviderFile,
  waitForProviderFile,
  type FileToUpload,
  type ProviderFile,
  type ProviderFilesAccess,
} from './provider-files.ts'

type UploadedAttachment = { readonly name: string; readonly id: string }

/** A file that is still at the provider because deleting it failed. */
type FailedDeletion = { readonly id: string; readonly error: unknown }

/**
 * Uploads all attachments of a run, or none: after a failure what was uploaded is deleted again.
 *
 * An upload is not interrupted because another one failed, since the provider may have stored the file already. Only
 * an abort in the middle of an upload can leave a file behind.
 *
 * @throws AttachmentError for the first file that failed, or the reason of `signal`.
 */
export async function uploadAttachments(
  access: ProviderFilesAccess,
  attachments: readonly (FileToUpload & { readonly name: string })[],
  signal?: AbortSignal,
): Promise<UploadedAttachment[]> {
  const uploads = await Promise.allSettled(
    attachments.map(async (attachment) => {
      return { name: attachment.name, file: await uploadProviderFile(access, attachment, signal) }
    }),
  )
  const uploaded = uploads.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const files = uploaded.map(({ file }) => file)
  try {
    signal?.throwIfAborted()
    for (const result of uploads) if (result.status === 'rejected') throw result.reason
    await waitForAll(access, files, signal)
  } catch (error) {
    await deleteUploads(access, files.map(idOf))
    throw error
  }
  return uploaded.map(({ name, file }) => ({ name, id: file.id }))
}

async function waitForAll(
  access: ProviderFilesAccess,
  files: readonly ProviderFile[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const failed = new AbortController()
  const stop = AbortSignal.any([failed.signal, ...(signal ? [signal] : [])])
  const waits = files.map(async (file) => {
    try {
      await waitForProviderFile(access, file, stop)
    } catch (error) {
      failed.abort(error) // Only the first call counts.
    }
  })
  await Promise.all(waits)
  failed.signal.throwIfAborted()
}

const DELETION_TIMEOUT_MS = 10_000

/** Deletes files at the provider, e.g. when their run has ended. Tries each one; returns those that remain. */
export async function deleteUploads(access: ProviderFilesAccess, ids: readonly string[]): Promise<FailedDeletion[]> {
  const deletions = ids.map(async (id): Promise<FailedDeletion[]> => {
    try {
      await deleteProviderFile(access, id, AbortSignal.timeout(DELETION_TIMEOUT_MS))
      return []
    } catch (error) {
      return [{ id, error }]
    }
  })
  return (await Promise.all(deletions)).flat()
}

const idOf = ({ id }: ProviderFile): string => id
