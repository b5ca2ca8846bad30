import type { FileStores } from '@bureau/runtime'
import { AgencyMount } from './agency-mount.ts'

/** Whose mount it is. One integration has one mount, which its members share. */
type MountOwner = { readonly ownerId: string; readonly integrationId: string }

/** Mounts that were used lately are kept open; opening one is a handful of system calls. */
const MAX_OPEN = 1_000

/** The mounts of all integrations: the areas `mounts/<owner>/<integration>` of the stored files. */
export class AgencyMounts {
  readonly #files: FileStores
  readonly #open = new Map<string, Promise<AgencyMount>>()

  constructor(files: FileStores) {
    this.#files = files
  }

  /** The mount of an integration; made when it is asked for the first time. */
  of({ ownerId, integrationId }: MountOwner): Promise<AgencyMount> {
    const area = `mounts/${requireId(ownerId)}/${requireId(integrationId)}`
    const known = this.#open.get(area)
    if (known) return known
    const [oldest] = this.#open.keys()
    if (oldest !== undefined && this.#open.size >= MAX_OPEN) this.#open.delete(oldest)
    const opening = this.#files.open(area).then((files) => new AgencyMount(files))
    this.#open.set(area, opening)
    opening.catch(() => this.#open.delete(area))
    return opening
  }
}

/** An id of ours is one path segment. */
function requireId(id: string): string {
  if (!/^[a-z]+_[0-9a-z]+$/.test(id)) throw new Error('a mount belongs to an owner and an integration')
  return id
}
