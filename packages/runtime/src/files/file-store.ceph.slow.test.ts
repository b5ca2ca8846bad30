import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, onTestFinished, vi } from 'vitest'
import { type Ceph, HAS_CEPH, startCeph } from '../../../../tests/support/ceph.ts'
import { describeFileStore } from './file-store.contract.ts'
import { openS3FileStores } from './file-store.s3.ts'

describe.runIf(HAS_CEPH)("Ceph's object gateway", () => {
  let ceph: Ceph
  beforeAll(async () => {
    ceph = await startCeph()
    vi.stubEnv('AWS_ACCESS_KEY_ID', ceph.accessKey)
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', ceph.secretKey)
    return async () => {
      vi.unstubAllEnvs()
      await ceph[Symbol.asyncDispose]()
    }
  })

  describeFileStore('Ceph', async () => {
    const url = `s3://${ceph.bucket}/${randomUUID()}?endpoint=${ceph.endpoint}`
    const stores = await openS3FileStores(url, (error) => expect.fail(error.message))
    onTestFinished(() => stores.close())
    return stores.open('area')
  })
})
