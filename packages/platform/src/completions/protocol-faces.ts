import { openAiFaces } from '@bureau/faces'
import type { Platform } from '../context.ts'
import type { Route } from '../http/route.ts'
import { PlatformHost } from './face-host.ts'

const MIB = 1_048_576

/** The protocols that the self-hosted server speaks as well. Each has errors in its own shape. */
export function protocolRoutes(platform: Platform): readonly Route[] {
  const rows = openAiFaces(new PlatformHost(platform), { sideRequests: 'agency', serverKeeps: true, isStrict: false })
  return rows.map((row) => ({
    ...row,
    scope: 'runs',
    ...(row.method === 'POST' && { admits: true, maxBodyBytes: 32 * MIB }),
  }))
}
