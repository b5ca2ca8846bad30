import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Agency, RunEnvironment } from '@bureau/framework'
export { patternOf } from '@bureau/runtime'
import { createLogger, type LogDestination, type LogLevel } from '@bureau/runtime'
import { type AttachmentAccessOptions, createAttachmentAccess } from './attachments/attachment-access.ts'
import { createFirstApiKey, type IssuedApiKey } from './api-keys/create-api-key.ts'
import { loadPlatformConfig, type PlatformConfig } from './config.ts'
import type { Database } from './db/database.ts'
import { type Engine, openTestDatabase, queryRows } from './db/engines.contract.ts'
import { openDatabase } from './db/open-database.ts'
import { checkInvariants, type Violation } from './db/invariants.contract.ts'
import { createIntegration, type NewIntegration } from './integrations/manage-integrations.ts'
import { equipPlatform, type OpenPlatform } from './main.ts'
import { createOwner } from './owners/create-owner.ts'
import { equipStore } from './platform-store.ts'

export { CommitUnknownError, type Database, type RunOptions } from './db/database.ts'
export { type Engine, ENGINES, preparedFolder, queryRows, SERVER } from './db/engines.contract.ts'
export { ROUTES } from './app.ts'
export { checkInvariants, type Violation } from './db/invariants.contract.ts'
export type { Operation } from './db/operation.ts'
export { seededConsumer, seededIntegration, seedHistory } from './db/seed-history.contract.ts'
export { platformDocument } from './docs/openapi.ts'
export type { Route } from './http/route.ts'
export { equipPlatform } from './main.ts'
export { equipStore } from './platform-store.ts'
export { dropExpiredUploads, measureMounts, removeLeftovers } from './system/maintenance.ts'
export { foldUsage } from './usage/fold-usage.ts'
export { deliverNotifications } from './webhooks/deliver-notifications.ts'
export { deliverWebhooks } from './webhooks/deliver-webhooks.ts'

/** What the processes of one installation have in common. */
type Shared = { readonly databaseUrl: string; readonly masterKey: Uint8Array; readonly dataFolder: string }

export type TestPlatformOptions = {
  /** Another process of this installation, on PostgreSQL. */
  readonly beside?: Shared
  readonly agencies: Readonly<Record<string, Agency>>
  readonly environment: RunEnvironment
  readonly config?: Partial<PlatformConfig>
  /** How attachments are fetched. Default: from public addresses. */
  readonly access?: AttachmentAccessOptions
  /** Asked before each database operation: an error to throw instead. */
  readonly intercept?: (operation: string) => Error | undefined
  /** Default: nothing. */
  readonly logLevel?: LogLevel
  /** Default: standard output. */
  readonly logDestination?: LogDestination
}

type TestTenant = { readonly ownerId: string; readonly key: IssuedApiKey }

export type TestPlatform = OpenPlatform & {
  readonly engine: Engine
  readonly dataFolder: string
  /** For another process on the same records. */
  readonly shared: Shared
  /** An owner with an API key that may do everything. */
  addTenant(name?: string): Promise<TestTenant>
  addIntegration(ownerId: string, settings?: Partial<NewIntegration>): Promise<string>
  /** Rows of a query of the test, across owners. */
  rows(query: string): Promise<Record<string, unknown>[]>
  /** What the records break of their promises; empty is good. */
  violations(): Promise<Violation[]>
  close(): Promise<void>
}

/** A platform on an empty database of its own, with a data folder of its own. It does not listen yet. */
export async function openTestPlatform(engine: Engine, options: TestPlatformOptions): Promise<TestPlatform> {
  const { beside } = options
  const dataFolder = beside?.dataFolder ?? mkdtempSync(path.join(tmpdir(), 'bureau-platform-'))
  const { db, url, drop } = beside ? await openBeside(beside) : await openTestDatabase(engine)
  const masterKey = beside?.masterKey ?? new Uint8Array(randomBytes(32))
  // The app closes its records; this database is closed once, by `drop`.
  const kept: Database = {
    engine,
    failed: db.failed,
    run: async (operation, ...rest) => {
      const error = options.intercept?.(operation.name)
      if (error) throw error
      return db.run(operation, ...rest)
    },
    close: async () => {},
  }
  const store = await equipStore(kept, { masterKey, issuer: 'test' })
  const config = {
    ...loadPlatformConfig({ BUREAU_DATA: dataFolder, PLATFORM_MAX_LAG_MS: '0', PLATFORM_REQUEST_BURST: '100000' }),
    databaseUrl: url,
    directUrl: engine === 'postgres' ? url : undefined,
    ...options.config,
  }
  const opened = await equipPlatform(store, {
    agencies: new Map(Object.entries(options.agencies)),
    environment: options.environment,
    config,
    log: createLogger(options.logLevel ?? 'silent', options.logDestination),
    ...(options.access && { access: createAttachmentAccess(options.access) }),
  })
  return {
    ...opened,
    engine,
    dataFolder,
    shared: { databaseUrl: url, masterKey, dataFolder },
    addTenant: async (name = 'Ada') => {
      const { id: ownerId } = await createOwner(db, store.dataKeys, { name })
      return { ownerId, key: await createFirstApiKey(store.keyIssuer, ownerId, { name: 'test' }) }
    },
    addIntegration: async (ownerId, settings = {}) => {
      const [agencyId = ''] = Object.keys(options.agencies)
      const defaultAgent = options.agencies[agencyId]?.entryPoint.name ?? ''
      const integration = { name: 'Test', agencyId, defaultAgent, ...settings }
      const view = await db.run(createIntegration, { ownerId, actor: 'test', integration })
      return view.apiIntegrationId
    },
    rows: (query) => db.run(queryRows, query),
    violations: () => db.run(checkInvariants, { settled: true }),
    close: async () => {
      opened.app.server.closeAllConnections()
      await opened.app.close()
      await drop()
      rmSync(dataFolder, { recursive: true, force: true })
    },
  }
}

async function openBeside({ databaseUrl }: Shared): Promise<{ db: Database; url: string; drop: () => Promise<void> }> {
  const db = await openDatabase(databaseUrl)
  return { db, url: databaseUrl, drop: () => db.close() }
}
