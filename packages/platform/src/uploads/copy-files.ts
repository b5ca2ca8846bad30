import type { FileStore, FileStores, StoredFile } from '@bureau/runtime'

/** What has become of the files so far. */
export type CopiedFiles = {
  readonly copied: number
  readonly copiedBytes: number
  /** They were there already. */
  readonly kept: number
}

/** Everything that the platform keeps in files. */
const AREAS = ['blobs', 'mounts', 'uploads']
const AT_ONCE = 8

/**
 * Copies the files of the platform from one place to another. Files that are there with the same size, and not older, are
 * kept: a copy that was interrupted, or that a running platform has outdated, is simply made again.
 *
 * @param onProgress - Called after each file.
 * @throws ServiceError `files_unavailable`, `invalid_file_name` for a name that is too long for the place
 */
export async function copyFiles(
  from: FileStores,
  to: FileStores,
  onProgress: (copied: CopiedFiles) => void,
): Promise<CopiedFiles> {
  let sofar: CopiedFiles = { copied: 0, copiedBytes: 0, kept: 0 }
  for (const area of AREAS) {
    const [source, target] = await Promise.all([from.open(area), to.open(area)])
    const files = withCounterparts(source.list(), target.list())
    const copySome = async (): Promise<void> => {
      for await (const [file, there] of files) {
        const isThere = there?.sizeBytes === file.sizeBytes && there.modifiedAt >= file.modifiedAt
        const copiedBytes = isThere ? undefined : await copyFile(file.name, source, target)
        if (copiedBytes === undefined) sofar = { ...sofar, kept: sofar.kept + 1 }
        else sofar = { ...sofar, copied: sofar.copied + 1, copiedBytes: sofar.copiedBytes + copiedBytes }
        onProgress(sofar)
      }
    }
    // The first that fails ends the list for all. What they are writing is waited for, so that nothing goes on after an error.
    const copies = Array.from({ length: AT_ONCE }, copySome)
    await Promise.allSettled(copies)
    await Promise.all(copies)
  }
  return sofar
}

/** @returns Its bytes; undefined when it was deleted meanwhile. */
async function copyFile(name: string, source: FileStore, target: FileStore): Promise<number | undefined> {
  const file = await source.open(name)
  if (!file) return undefined
  try {
    const { sizeBytes } = await target.put(name, file.stream, { maxBytes: file.sizeBytes })
    return sizeBytes
  } finally {
    file.stream.destroy() // A target that refuses the file has not read it.
  }
}

/** Each file with the one of the same name in the other list; both are sorted. */
async function* withCounterparts(
  files: AsyncIterable<StoredFile>,
  others: AsyncIterable<StoredFile>,
): AsyncGenerator<[StoredFile, StoredFile | undefined], void> {
  const rest = others[Symbol.asyncIterator]()
  try {
    let other: StoredFile | undefined = (await rest.next()).value
    for await (const file of files) {
      while (other && Buffer.compare(Buffer.from(other.name), Buffer.from(file.name)) < 0) {
        other = (await rest.next()).value
      }
      yield [file, other?.name === file.name ? other : undefined]
    }
  } finally {
    await rest.return?.() // It holds folders open.
  }
}
