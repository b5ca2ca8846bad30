import { type MountFile, ServiceError } from '@bureau/protocol'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'
import type { Page, PageRequest } from '../db/page.ts'
import { readIntegration } from '../integrations/describe-integrations.ts'
import type { AgencyMount, MountFile as StoredFile, OpenedMountFile } from '../mount/agency-mount.ts'
import { noteFileDeleted } from './mount-usage.ts'

export type Mounted = { readonly platform: Platform; readonly caller: Caller; readonly integrationId: string }

/** @throws ServiceError `integration_not_found`, also for foreign ones */
async function openMount({ platform, caller, integrationId }: Mounted): Promise<AgencyMount> {
  await readIntegration(platform, caller, integrationId)
  return platform.mounts.of({ ownerId: caller.ownerId, integrationId })
}

/** One page of the files below a folder, or whose paths begin like this, by path. @throws ServiceError `invalid_sandbox_file` */
export async function listMountFiles(
  mounted: Mounted,
  { prefix, limit, after }: PageRequest & { readonly prefix?: string },
): Promise<Page<MountFile>> {
  const mount = await openMount(mounted)
  const items: MountFile[] = []
  for await (const file of mount.list(prefix, after?.[1])) {
    if (items.length === limit) return { items, next: ['', items.at(-1)?.path ?? ''] }
    items.push(fileView(file))
  }
  return { items, next: null }
}

/** @throws ServiceError `integration_not_found`, `file_not_found`, `invalid_sandbox_file` */
export async function openMountFile(mounted: Mounted, path: string): Promise<OpenedMountFile> {
  const file = await (await openMount(mounted)).open(path)
  if (!file) throw new ServiceError('file_not_found')
  return file
}

/** Deletes a file; one that is not there counts as deleted. @throws ServiceError `integration_not_found`, `invalid_sandbox_file` */
export async function deleteMountFile(mounted: Mounted, path: string): Promise<void> {
  const { platform, caller, integrationId } = mounted
  const deleted = await (await openMount(mounted)).delete(path)
  if (!deleted) return
  const { ownerId, keyId: actor } = caller
  const deletion = { ownerId, integrationId, actor, path, bytes: deleted.sizeBytes }
  await platform.store.db.run(noteFileDeleted, deletion)
}

function fileView({ path, name, sizeBytes, modifiedAt }: StoredFile): MountFile {
  return { path, name, size: sizeBytes, modifiedAt: new Date(modifiedAt).toISOString() }
}
