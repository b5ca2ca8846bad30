import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { FileStore } from '@bureau/runtime'
import { AgencyMount } from './agency-mount.ts'

/** Whose mount it is. One integration has one mount, which its members share. */
type MountOwner = { readonly ownerId: string; readonly integrationId: string }

type AgencyMountsOptions = {
  /** Holds `mounts/<owner>/<integration>`, and `staging` on the same file system, which is never mounted anywhere. */
  readonly dataFolder: string
  /** `openLocalFileStore` */
  readonly openStore: (folders: { directory: string; stagingDirectory: string }) => Promise<FileStore>
}

/** Mounts that were used lately are kept open; opening one is a handful of system calls. */
const MAX_OPEN = 1_000
/** What was seen to be empty counts as empty for so long, unless something was put there by this process. */
const EMPTY_MS = 250

/** The mounts of all integrations. */
export class AgencyMounts {
  readonly #options: AgencyMountsOptions
  readonly #open = new Map<string, Promise<AgencyMount>>()
  readonly #seenEmpty = new WeakMap<AgencyMount, { readonly puts: number; readonly until: number }>()

  constructor(options: AgencyMountsOptions) {
    this.#options = options
  }

  /** The mount of an integration; made when it is asked for the first time. */
  of({ ownerId, integrationId }: MountOwner): Promise<AgencyMount> {
    const place = join(requireId(ownerId), requireId(integrationId))
    const known = this.#open.get(place)
    if (known) return known
    const [oldest] = this.#open.keys()
    if (oldest !== undefined && this.#open.size >= MAX_OPEN) this.#open.delete(oldest)
    const opening = this.#openMount(place)
    this.#open.set(place, opening)
    opening.catch(() => this.#open.delete(place))
    return opening
  }

  /** Whether there is no file in the mount of an integration. Cheaper than opening it where there never was one. */
  async isEmpty(owner: MountOwner): Promise<boolean> {
    const mount = await this.of(owner)
    const { puts } = mount
    const seen = this.#seenEmpty.get(mount)
    if (seen?.puts === puts && performance.now() < seen.until) return true
    const entries = await readdir(join(this.#folder, owner.ownerId, owner.integrationId))
    if (entries.length > 0) for await (const _ of mount.list()) return false
    this.#seenEmpty.set(mount, { puts, until: performance.now() + EMPTY_MS })
    return true
  }

  /** The mounts that there are, to measure them or to remove those of integrations that are gone. */
  async *list(): AsyncGenerator<MountOwner, void> {
    for (const ownerId of await foldersIn(this.#folder)) {
      for (const integrationId of await foldersIn(join(this.#folder, ownerId))) yield { ownerId, integrationId }
    }
  }

  get #folder(): string {
    return join(this.#options.dataFolder, 'mounts')
  }

  async #openMount(place: string): Promise<AgencyMount> {
    const { dataFolder, openStore } = this.#options
    const folders = { directory: join(this.#folder, place), stagingDirectory: join(dataFolder, 'staging') }
    return new AgencyMount(await openStore(folders))
  }
}

/** An id of ours is one path segment. */
function requireId(id: string): string {
  if (!/^[a-z]+_[0-9a-z]+$/.test(id)) throw new Error('a mount belongs to an owner and an integration')
  return id
}

async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}
