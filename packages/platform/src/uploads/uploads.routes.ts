import {
  AgencyUpload,
  CreateAgencyUploadRequest,
  type ErrorCode,
  ServiceError,
  StoredUpload,
  UploadQuery,
} from '@bureau/protocol'
import { type Answered, ok, param, requirePlain } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { requireScope } from '../caller.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { baseUrlOf } from '../http/addresses.ts'
import { type Call, jsonRoute, rawRoute, type Route } from '../http/route.ts'
import { createUpload } from './create-upload.ts'
import { type Content, findUpload, receivePart, receiveWhole, type UploadAddress } from './receive-upload.ts'

const CONTENT = '/v1/upload_content/:uploadId'
const PART_TYPE = 'application/offset+octet-stream'

const CONTENT_ERRORS: readonly ErrorCode[] = [
  'invalid_upload_token',
  'rate_limited',
  'upload_complete',
  'upload_offset_mismatch',
  'upload_expired',
  'upload_too_large',
  'body_too_slow',
  'checksum_mismatch',
  'storage_quota_exceeded',
  'files_unavailable',
]

type ContentCall = Call<z.output<typeof UploadQuery>>

export const uploadRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'POST',
      url: '/create_agency_upload',
      id: 'create_agency_upload',
      consumer: 'upload',
      tag: 'Files',
      summary: "Upload a file into an integration's persistent agency mount",
      description: 'Reserves the room and answers where to send the content. The address is good for one hour.',
      scope: 'files:write',
      idempotent: true,
      shownOnce: ['uploadUrl'],
      body: CreateAgencyUploadRequest,
      codes: { name: 'invalid_file_name' },
      success: { 200: AgencyUpload },
      errors: [
        'invalid_file_name',
        'file_too_large',
        'integration_not_found',
        'unknown_agency',
        'storage_not_enabled',
        'storage_quota_exceeded',
      ],
      examples: {
        request: { ...EXAMPLES.integrationId, name: 'report.csv', size: 1042 },
        response: EXAMPLES.upload,
      },
    },
    create,
  ),
  rawRoute(
    {
      method: 'PUT',
      url: CONTENT,
      id: 'putUploadContent',
      tag: 'Files',
      summary: 'Send the whole content of an upload',
      scope: null,
      rawBody: true,
      query: UploadQuery,
      success: { 200: StoredUpload },
      errors: CONTENT_ERRORS,
    },
    put,
  ),
  rawRoute(
    {
      method: 'PATCH',
      url: CONTENT,
      id: 'patchUploadContent',
      tag: 'Files',
      summary: 'Send a part of the content, from where the last one ended',
      scope: null,
      rawBody: true,
      query: UploadQuery,
      headers: { 'Upload-Offset': 'Required.' },
      success: { 204: null },
      errors: ['invalid_content_type', ...CONTENT_ERRORS, 'upload_too_many_parts'],
    },
    patch,
  ),
  rawRoute(
    {
      method: 'HEAD',
      url: CONTENT,
      id: 'headUploadContent',
      tag: 'Files',
      summary: 'Ask how much of an upload has arrived: `Upload-Offset`',
      scope: null,
      query: UploadQuery,
      success: { 200: null },
      errors: ['invalid_upload_token', 'rate_limited', 'upload_expired'],
    },
    head,
  ),
]

async function create(
  call: Call<unknown, z.output<typeof CreateAgencyUploadRequest>>,
): Promise<Answered<200, AgencyUpload>> {
  const { platform, caller, body, request } = call
  const { apiIntegrationId: integrationId, name, size, contentType = null, sha256 = null } = body
  requireScope(caller, 'files:write', integrationId)
  const upload = { ownerId: caller.ownerId, integrationId, name, size, contentType, sha256 }
  return ok(await createUpload(platform, upload, baseUrlOf(platform, request)))
}

const addressOf = (call: ContentCall): UploadAddress => ({
  uploadId: param(call, 'uploadId'),
  token: call.query.token,
})

/** @throws ServiceError what `findUpload` throws; `rate_limited` for a client that has sent too many wrong tokens */
async function requireUpload(call: ContentCall): ReturnType<typeof findUpload> {
  const { platform, query, request } = call
  try {
    return await findUpload(platform, addressOf(call))
  } catch (error) {
    const isWrong = error instanceof ServiceError && error.code === 'invalid_upload_token'
    if (isWrong && query.token !== undefined) platform.guesses.count(request.ip)
    throw error
  }
}

/** The body as it comes; of a request without one, nothing. */
const contentOf = ({ request }: ContentCall): Content => (request.body as Content | undefined) ?? NOTHING

const NOTHING: Content = { async *[Symbol.asyncIterator]() {} }

async function put(call: ContentCall, reply: FastifyReply): Promise<FastifyReply> {
  await requireUpload(call)
  requirePlain(call.request)
  return reply.send(await receiveWhole(call.platform, addressOf(call), contentOf(call)))
}

async function patch(call: ContentCall, reply: FastifyReply): Promise<FastifyReply> {
  await requireUpload(call)
  requirePlain(call.request)
  const { headers } = call.request
  if (headers['content-type'] !== PART_TYPE) {
    throw new ServiceError('invalid_content_type', { message: `Send the part as ${PART_TYPE}.` })
  }
  const offset = readOffset(headers['upload-offset'])
  const received = await receivePart(call.platform, addressOf(call), { offset, content: contentOf(call) })
  return reply.code(204).header('Upload-Offset', received).send()
}

/** @throws ServiceError `upload_offset_mismatch` */
function readOffset(header: string | string[] | undefined): number {
  if (typeof header !== 'string' || !/^\d{1,12}$/.test(header)) throw new ServiceError('upload_offset_mismatch')
  return Number(header)
}

async function head(call: ContentCall, reply: FastifyReply): Promise<FastifyReply> {
  const { receivedBytes, declaredBytes } = await requireUpload(call)
  return reply.header('Upload-Offset', receivedBytes).header('Upload-Length', declaredBytes).send()
}
