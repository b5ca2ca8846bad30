import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ENGINES, queryRows } from '../db/engines.contract.ts'
import { newId } from '../ids.ts'
import type { TestTenant } from '../test-store.contract.ts'
import { codeOf, useTestStore } from '../use-test-store.contract.ts'
import {
  advanceUpload,
  completeUpload,
  expireUploads,
  listOverdueUploads,
  openUpload,
  reserveUpload,
} from './manage-uploads.ts'
import { noteFileDeleted, setMountUsage } from './mount-usage.ts'

describe.each(ENGINES)('uploads on %s', (engine) => {
  const platform = useTestStore(engine)

  const tokenHash = new Uint8Array(randomBytes(32))
  const reserve = (tenant: TestTenant, bytes: number, more: { sha256?: Uint8Array } = {}) =>
    platform.db.run(reserveUpload, {
      ownerId: tenant.ownerId,
      integrationId: tenant.integrationId,
      deployed: ['shop'],
      uploadId: newId('upl'),
      name: 'report.csv',
      bytes,
      contentType: 'text/csv',
      sha256: more.sha256 ?? null,
      tokenHash,
    })
  /** What the mount of an integration holds, and what is promised to pending uploads. */
  const usage = async ({ integrationId }: TestTenant) => {
    const [row] = await platform.db.run(
      queryRows,
      `SELECT used_bytes::int AS "usedBytes", reserved_bytes::int AS "reservedBytes", file_count::int AS "fileCount"
        FROM mount_usage WHERE integration_id = '${integrationId}'`,
    )
    return row
  }

  test('from reservation to a file of the mount', async () => {
    const tenant = await platform.addTenant()
    const upload = await reserve(tenant, 10)
    expect(upload).toMatchObject({ status: 'pending', declaredBytes: 10, receivedBytes: 0 })
    expect(upload.path).toBe(`/app/mnt/uploads/${upload.uploadId.slice(4)}/report.csv`)
    expect(await usage(tenant)).toEqual({ usedBytes: 0, reservedBytes: 10, fileCount: 0 })

    const { ownerId, uploadId } = await platform.db.run(openUpload, { uploadId: upload.uploadId, tokenHash })
    const key = { ownerId, uploadId }
    const advance = (offset: number, bytes: number, part: string | null) =>
      platform.db.run(advanceUpload, { ...key, offset, bytes, part })
    expect(await advance(0, 6, 'a')).toMatchObject({ receivedBytes: 6, parts: ['a'] })
    expect(await codeOf(advance(0, 1, 'b'))).toBe('upload_offset_mismatch')
    expect(await codeOf(advance(6, 5, 'b'))).toBe('upload_too_large')
    expect(await advance(6, 0, null)).toMatchObject({ receivedBytes: 6, parts: ['a'] })
    expect(await advance(6, 2, 'c')).toMatchObject({ receivedBytes: 8, parts: ['a', 'c'] })
    const complete = () => platform.db.run(completeUpload, { ...key, bytes: 8, sha256: tokenHash })
    expect(await complete()).toMatchObject({ status: 'ready', receivedBytes: 8 })
    expect(await complete()).toMatchObject({ status: 'ready' })
    expect(await usage(tenant)).toEqual({ usedBytes: 8, reservedBytes: 0, fileCount: 1 })

    const { integrationId } = tenant
    await platform.db.run(noteFileDeleted, { ownerId, integrationId, actor: 'key_1', path: upload.path, bytes: 8 })
    expect(await usage(tenant)).toEqual({ usedBytes: 0, reservedBytes: 0, fileCount: 0 })
  })

  test('a checksum that was announced must hold', async () => {
    const tenant = await platform.addTenant()
    const { uploadId } = await reserve(tenant, 1, { sha256: new Uint8Array(32) })
    const complete = (sha256: Uint8Array) =>
      platform.db.run(completeUpload, { ownerId: tenant.ownerId, uploadId, bytes: 1, sha256 })
    expect(await codeOf(complete(tokenHash))).toBe('checksum_mismatch')
    expect(await codeOf(complete(new Uint8Array(32)))).toBe('fine')
  })

  test('only the token opens an upload, and only this one', async () => {
    const tenant = await platform.addTenant()
    const { uploadId } = await reserve(tenant, 1)
    const other = new Uint8Array(randomBytes(32))
    expect(await codeOf(platform.db.run(openUpload, { uploadId, tokenHash: other }))).toBe('invalid_upload_token')
    expect(await codeOf(platform.db.run(openUpload, { uploadId: 'upl_none', tokenHash }))).toBe('invalid_upload_token')
    const stranger = await platform.addTenant()
    const foreign = { ownerId: stranger.ownerId, uploadId, bytes: 1, sha256: tokenHash }
    expect(await codeOf(platform.db.run(completeUpload, foreign))).toBe('upload_expired')
  })

  test('of two requests that go on from the same offset one counts', async () => {
    const tenant = await platform.addTenant()
    const { uploadId } = await reserve(tenant, 10)
    const advance = (part: string) =>
      platform.db.run(advanceUpload, { ownerId: tenant.ownerId, uploadId, offset: 0, bytes: 4, part })
    expect((await Promise.all([codeOf(advance('a')), codeOf(advance('b'))])).toSorted()).toEqual([
      'fine',
      'upload_offset_mismatch',
    ])
    expect((await platform.db.run(openUpload, { uploadId, tokenHash })).parts).toHaveLength(1)
  })

  test('a part for an upload that another request has completed meanwhile is refused as one for a complete upload', async () => {
    const tenant = await platform.addTenant()
    const { uploadId } = await reserve(tenant, 4)
    const key = { ownerId: tenant.ownerId, uploadId }
    await platform.db.run(advanceUpload, { ...key, offset: 0, bytes: 4, part: 'a' })
    await platform.db.run(completeUpload, { ...key, bytes: 4, sha256: tokenHash })
    expect(await codeOf(platform.db.run(advanceUpload, { ...key, offset: 0, bytes: 4, part: 'b' }))).toBe(
      'upload_complete',
    )
  })

  test('of two that complete an upload at once both are answered alike, unless what they stored differs', async () => {
    const tenant = await platform.addTenant()
    const other = new Uint8Array(randomBytes(32))
    const completeTwice = async (contents: readonly Uint8Array[]) => {
      const { uploadId } = await reserve(tenant, 1)
      const complete = (sha256: Uint8Array) =>
        codeOf(platform.db.run(completeUpload, { ownerId: tenant.ownerId, uploadId, bytes: 1, sha256 }))
      return new Set(await Promise.all(contents.map(complete)))
    }
    expect(await completeTwice([tokenHash, tokenHash])).toEqual(new Set(['fine']))
    expect(await completeTwice([tokenHash, other])).toEqual(new Set(['fine', 'upload_complete']))
    expect(await usage(tenant)).toEqual({ usedBytes: 2, reservedBytes: 0, fileCount: 2 })
  })

  test('of 20 that want the room of 5, five get it', async () => {
    const tenant = await platform.addTenant({ storageQuotaBytes: 50 })
    const codes = await Promise.all(Array.from({ length: 20 }, () => codeOf(reserve(tenant, 10))))
    expect(codes.filter((code) => code === 'fine')).toHaveLength(5)
    expect(new Set(codes)).toEqual(new Set(['fine', 'storage_quota_exceeded']))
    expect(await usage(tenant)).toMatchObject({ reservedBytes: 50 })
  })

  test('of 20 that want the last five places of a mount, five get them', async () => {
    const tenant = await platform.addTenant()
    const { ownerId, integrationId } = tenant
    await platform.db.run(setMountUsage, { ownerId, integrationId, usedBytes: 0, fileCount: 99_995 })
    const codes = await Promise.all(Array.from({ length: 20 }, () => codeOf(reserve(tenant, 0))))
    expect(codes.filter((code) => code === 'fine')).toHaveLength(5)
  })

  test('the clock of the database decides when an upload is over, not that of a process', async () => {
    const tenant = await platform.addTenant()
    const { uploadId } = await reserve(tenant, 1)
    vi.useFakeTimers({ now: Date.now() + 7_200_000, toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const key = { ownerId: tenant.ownerId, uploadId }
    expect(await codeOf(platform.db.run(advanceUpload, { ...key, offset: 0, bytes: 1, part: 'a' }))).toBe('fine')
    expect(await codeOf(platform.db.run(completeUpload, { ...key, bytes: 1, sha256: tokenHash }))).toBe('fine')
  })

  test('what agents wrote counts once the mount was measured', async () => {
    const tenant = await platform.addTenant({ storageQuotaBytes: 50 })
    const { ownerId, integrationId } = tenant
    await platform.db.run(setMountUsage, { ownerId, integrationId, usedBytes: 45, fileCount: 3 })
    expect(await codeOf(reserve(tenant, 6))).toBe('storage_quota_exceeded')
    expect(await codeOf(reserve(tenant, 5))).toBe('fine')
    await platform.db.run(setMountUsage, { ownerId, integrationId, usedBytes: 0, fileCount: 100_000 })
    expect(await codeOf(reserve(tenant, 1))).toBe('storage_quota_exceeded')
  })

  test("storage that is switched off and another owner's integration are refused", async () => {
    const tenant = await platform.addTenant({ storageQuotaBytes: 0 })
    const stranger = await platform.addTenant()
    expect(await codeOf(reserve(tenant, 1))).toBe('storage_not_enabled')
    expect(await codeOf(reserve({ ...stranger, integrationId: tenant.integrationId }, 1))).toBe('integration_not_found')
  })

  test('an upload that was not finished within its hour gives its room back', async () => {
    const tenant = await platform.addTenant()
    const { uploadId } = await reserve(tenant, 10)
    const fresh = await reserve(tenant, 5)
    await platform.rows(`UPDATE uploads SET expires_at = now() - interval '1 second' WHERE id = '${uploadId}'`)
    expect(await codeOf(platform.db.run(openUpload, { uploadId, tokenHash }))).toBe('upload_expired')
    const overdue = async () =>
      (await platform.db.run(listOverdueUploads, { after: null, limit: 10 })).map((upload) => upload.uploadId)
    expect(await overdue()).toEqual([uploadId])
    for (const _ of ['once', 'again']) await platform.db.run(expireUploads, [uploadId, fresh.uploadId])
    expect(await overdue()).toEqual([])
    expect(await usage(tenant)).toMatchObject({ reservedBytes: 5 })
    const late = { ownerId: tenant.ownerId, uploadId, bytes: 1, sha256: tokenHash }
    expect(await codeOf(platform.db.run(completeUpload, late))).toBe('upload_expired')
    expect(await codeOf(platform.db.run(openUpload, { uploadId: fresh.uploadId, tokenHash }))).toBe('fine')
  })
})
