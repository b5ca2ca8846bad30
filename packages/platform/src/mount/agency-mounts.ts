import type { FileStores } from '@bureau/runtime'
import { PromiseCache } from '../promise-cache.ts'
import { AgencyMount } from './agency-mount.ts'

/** Whose mount it is. One integration has one mount, which its members share. */
type MountOwner = { readonly ownerId: string; readonly integrationId: string }

/** Mounts that were opened last are kept; opening one is a handful of system calls. */
const MAX_OPEN = 1_000

/** The mounts of all integrations: the areas `mounts/<owner>/<integration>` of the stored files. */
export class AgencyMounts {
  readonly #files: FileStores
  readonly #open = new PromiseCache<AgencyMount>({ size: MAX_OPEN })

  constructor(files: FileStores) {
    this.#files = files
  }

  /** The mount of an integration; made when it is asked for the first time. */
  of({ ownerId, integrationId }: MountOwner): Promise<AgencyMount> {
    const area = `mounts/${requireId(ownerId)}/${requireId(integrationId)}`
    return this.#open.of(area, async () => new AgencyMount(await this.#files.open(area)))
  }
}

/** An id of ours is one path segment. */
function requireId(id: string): string {
  if (!/^[a-z]+_[0-9a-z]+$/.test(id)) throw new Error('a mount belongs to an owner and an integration')
  return id
}
