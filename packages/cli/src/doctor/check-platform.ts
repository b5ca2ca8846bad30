import { statfs } from 'node:fs/promises'
import { nearestFolder, openFileStores, type PlatformConfig, probeDatabase } from '@bureau/platform'

import { ConfigError, StartError } from '@bureau/protocol'
import { connectRedis } from '@bureau/runtime'
import type { Finding } from './finding.ts'

export { loadPlatformConfig } from '@bureau/platform'

const MIN_POSTGRES = 15
const MAX_CLOCK_OFF_MS = 2_000
const MIN_FREE_SHARE = 0.05
const FIRST_CONNECT_MS = 5_000

export async function checkDatabase({ databaseUrl, dataFolder }: PlatformConfig): Promise<Finding> {
  const subject = 'Database'
  const { version, clockAheadMs = 0 } = await probeDatabase(databaseUrl).catch((cause: unknown) => {
    if (cause instanceof ConfigError || cause instanceof StartError) throw cause
    const isEmbedded = databaseUrl.startsWith('pglite:')
    throw new Error(
      isEmbedded
        ? `BUREAU_DATA: the data folder ${dataFolder} cannot be used.`
        : 'DATABASE_URL: no database can be reached.',
      { cause },
    )
  })
  if (version === undefined) return { subject, state: 'ok', text: `embedded, in ${dataFolder}` }
  if (Number.parseInt(version, 10) < MIN_POSTGRES) {
    return { subject, state: 'fault', text: `PostgreSQL ${version} is too old: use ${MIN_POSTGRES} or newer.` }
  }
  if (Math.abs(clockAheadMs) > MAX_CLOCK_OFF_MS) {
    const text = `PostgreSQL ${version}; its clock is ${clockAheadMs} ms ahead of this machine's: set both by NTP.`
    return { subject, state: 'note', text }
  }
  return { subject, state: 'ok', text: `PostgreSQL ${version}` }
}

export async function checkDisk({ dataFolder }: PlatformConfig): Promise<Finding> {
  const subject = 'Disk'
  const { bavail, blocks, bsize } = await statfs(nearestFolder(dataFolder))
  const text = `${((bavail * bsize) / 2 ** 30).toFixed(1)} GiB free at ${dataFolder}`
  if (bavail >= blocks * MIN_FREE_SHARE) return { subject, state: 'ok', text }
  return { subject, state: 'fault', text: `${text}, less than 5 %: the platform would not report that it is ready.` }
}

/** Of a bucket; a folder is what `checkDisk` looks at. */
export async function checkFiles({ filesUrl = '' }: PlatformConfig): Promise<Finding> {
  let unreachable: unknown
  const files = await openFileStores(filesUrl, { warn: ({ err }: { err: unknown }) => (unreachable = err) })
  files.close()
  if (unreachable) throw new Error('FILES_URL: the file store cannot be reached.', { cause: unreachable })
  return { subject: 'Files', state: 'ok', text: `in the bucket ${new URL(filesUrl).hostname}` }
}

export async function checkRedis(redisUrl: string | undefined): Promise<Finding> {
  const subject = 'Redis'
  if (redisUrl === undefined) return { subject, state: 'ok', text: 'not used: one process' }
  const redis = await connectRedis({ url: redisUrl, firstConnectMs: FIRST_CONNECT_MS })
  try {
    await redis.commands.ping()
  } finally {
    await redis.close()
  }
  return { subject, state: 'ok', text: 'answers' }
}
