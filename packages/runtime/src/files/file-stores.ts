import type { FileStore } from './file-store.ts'

/** Where files are kept, in areas that know nothing of each other. */
export interface FileStores {
  /**
   * The files of an area such as `blobs` or `mounts/<owner>/<integration>`. Of two areas none lies within the other.
   *
   * @param area - Segments of ids and names of ours; never a caller's text.
   */
  open(area: string): Promise<FileStore>

  /** Removes what is left of puts that began before this moment (milliseconds since the epoch) and never ended. */
  removeLeftovers(before: number): Promise<void>

  close(): void
}
