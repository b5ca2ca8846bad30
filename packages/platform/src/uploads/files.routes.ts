import { FileListQuery, FileQuery, MountFile } from '@bureau/protocol'
import { NO_CONTENT, param } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { listRoute } from '../http/pages.ts'
import { type Call, jsonRoute, rawRoute, type Route } from '../http/route.ts'
import { deleteMountFile, listMountFiles, type Mounted, openMountFile } from './mount-files.ts'

const FILES = '/v1/integrations/:integrationId/files'

export const fileRoutes: readonly Route[] = [
  listRoute(
    {
      url: FILES,
      id: 'listFiles',
      tag: 'Files',
      summary: 'List the files of the agency mount, by path',
      scope: 'files:read',
      query: FileListQuery,
      item: MountFile,
      errors: ['integration_not_found', 'invalid_sandbox_file', 'files_unavailable'],
    },
    (call, asked) => listMountFiles(mountOf(call), asked),
  ),
  rawRoute(
    {
      method: 'GET',
      url: `${FILES}/content`,
      id: 'getFileContent',
      tag: 'Files',
      summary: 'Download a file of the agency mount',
      scope: 'files:read',
      query: FileQuery,
      success: { 200: { contentType: 'application/octet-stream', description: 'The content.' } },
      errors: ['integration_not_found', 'invalid_sandbox_file', 'file_not_found', 'files_unavailable'],
    },
    download,
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: FILES,
      id: 'deleteFile',
      tag: 'Files',
      summary: 'Delete a file of the agency mount',
      scope: 'files:write',
      query: FileQuery,
      success: { 204: null },
      errors: ['integration_not_found', 'invalid_sandbox_file', 'files_unavailable'],
    },
    async (call) => {
      await deleteMountFile(mountOf(call), call.query.path)
      return NO_CONTENT
    },
  ),
]

function mountOf(call: Call): Mounted {
  return { platform: call.platform, caller: call.caller, integrationId: param(call, 'integrationId') }
}

/** Whatever the content is, no browser takes it for a page of ours. */
async function download(call: Call<z.output<typeof FileQuery>>, reply: FastifyReply): Promise<FastifyReply> {
  const file = await openMountFile(mountOf(call), call.query.path)
  return reply
    .type('application/octet-stream')
    .header('content-length', file.sizeBytes)
    .header('content-disposition', `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`)
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', 'sandbox')
    .send(file.stream)
}
