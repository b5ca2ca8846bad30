import type { AgencyUpload, MountFile } from '@bureau/protocol'
import { useRef } from 'react'
import { integrationPath } from '../parts/integrations.tsx'
import { addressOf } from '../server/address.ts'
import { ask, request, send } from '../server/request.ts'
import { Button } from '../ui/button.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { bytes } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { Empty } from '../ui/page.tsx'
import { saveBlob } from '../ui/save-file.ts'
import { failedToast } from '../ui/toasts.tsx'
import { once, useChange, useRemove } from './change.ts'
import { IntegrationPage } from './integration-page.tsx'
import { PagedTable } from './paged-table.tsx'

/** The files that the agents of an integration can read. */
export function FilesPage() {
  return (
    <IntegrationPage
      title="Files"
      about="Uploaded into an integration; its agents read them with tools."
      actions={(integration) => <Upload integration={integration} />}
    >
      {(integration) => (
        <PagedTable
          label="Files"
          path={filesPath(integration)}
          columns={columns(filesPath(integration))}
          keyOf={(file) => file.path}
          empty={<Empty icon="folder" title="No files yet" />}
        />
      )}
    </IntegrationPage>
  )
}

const filesPath = (integration: string): string => `${integrationPath(integration)}/files`

function Upload({ integration }: { readonly integration: string }) {
  const input = useRef<HTMLInputElement>(null)
  const upload = useChange((file: File) => uploadFile(integration, file), 'The file is uploaded')
  return (
    <>
      <Button look="primary" icon="attach" disabled={upload.isPending} onClick={() => input.current?.click()}>
        Upload
      </Button>
      <input
        ref={input}
        type="file"
        aria-label="File"
        className="hidden"
        onChange={({ target }) => {
          if (target.files?.[0]) upload.mutate(target.files[0])
          target.value = '' // The same file may be chosen again.
        }}
      />
    </>
  )
}

/** The address of the content names the platform as others reach it; this page asks it as it was loaded itself. */
async function uploadFile(apiIntegrationId: string, file: File): Promise<void> {
  const body = { apiIntegrationId, name: file.name, size: file.size }
  const { uploadUrl } = await ask<AgencyUpload>('platform', 'create_agency_upload', {
    method: 'POST',
    body,
    headers: once(),
  })
  const { pathname, search } = new URL(uploadUrl ?? '', addressOf('/'))
  const at = pathname.slice(pathname.indexOf('/v1/')) + search
  await request(at, { method: 'PUT', body: file, headers: { 'content-type': 'application/octet-stream' } })
}

function columns(path: string): readonly Column<MountFile>[] {
  return [
    { name: 'File', cell: ({ name, path: where }) => <span title={where}>{name}</span> },
    { name: 'Path', cell: ({ path: where }) => <code className="text-xs text-soft">{where}</code>, wideOnly: true },
    { name: 'Size', cell: ({ size }) => bytes(size), right: true },
    timeColumn('Changed', ({ modifiedAt }) => modifiedAt),
    { name: 'More', cell: (file) => <More file={file} path={path} />, right: true },
  ]
}

function More({ file, path }: { readonly file: MountFile; readonly path: string }) {
  const query = `?path=${encodeURIComponent(file.path)}`
  const remove = useRemove(path + query, 'The file is deleted')
  const download = async (): Promise<void> =>
    saveBlob(file.name, await (await send('platform', `${path}/content${query}`)).blob())
  return (
    <Menu
      label={`More about ${file.name}`}
      items={[
        { label: 'Download', icon: 'download', act: () => void download().catch(failedToast) },
        {
          label: 'Delete',
          icon: 'trash',
          question: `Delete ${file.name}? Agents cannot read it any more.`,
          act: () => remove.mutate(),
        },
      ]}
    />
  )
}
