import { AuditEntry, PlatformSettings } from '@bureau/protocol'
import { ok } from '@bureau/runtime'
import { z } from 'zod'
import { listRoute } from '../http/pages.ts'
import { jsonRoute, type Route } from '../http/route.ts'
import { listAudit } from './list-audit.ts'
import { VERSION } from '../version.ts'
import { readSettings } from './settings.ts'
import { checkReadiness, listDegraded } from './readiness.ts'

const Health = z.object({ status: z.string() })
const Readiness = Health.extend({
  degraded: z.array(z.string()).optional().describe('What the process has to do without for now, e.g. `redis`.'),
})

/** For load balancers: alive, and ready for requests. For owners: who changed what. */
export const systemRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'GET',
      url: '/healthz',
      id: 'isAlive',
      tag: 'System',
      summary: 'Say that the process lives',
      scope: null,
      success: { 200: Health },
      errors: [],
    },
    async () => ok({ status: 'ok' }),
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/readyz',
      id: 'isReady',
      tag: 'System',
      summary: 'Say whether the process is ready for requests',
      scope: null,
      success: { 200: Readiness, 503: Health },
      errors: [],
    },
    async ({ platform }) => {
      const unready = await checkReadiness(platform)
      if (unready !== null) return { status: 503 as const, body: { status: unready } }
      const degraded = listDegraded(platform)
      return ok({ status: 'ok', ...(degraded.length > 0 && { degraded }) })
    },
  ),
  listRoute(
    {
      url: '/v1/audit',
      id: 'listAudit',
      tag: 'System',
      summary: 'List who changed what, newest first',
      scope: 'keys',
      everyIntegration: true,
      item: AuditEntry,
    },
    ({ platform, caller: { ownerId } }, page) => platform.store.db.run(listAudit, { ...page, ownerId }),
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/settings',
      id: 'getSettings',
      tag: 'System',
      summary: 'Get the limits in force, what is switched on, and the processes of the platform',
      scope: 'keys',
      everyIntegration: true,
      success: { 200: PlatformSettings },
      errors: [],
    },
    async ({ platform }) => ok(await readSettings(platform, VERSION)),
  ),
]
