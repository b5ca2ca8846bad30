import {
  type Agency,
  AnyFunction,
  makeFolder,
  type OptionChecks,
  readOptions,
  type RunEnvironment,
} from '@bureau/framework'
import { createLogger, GuessLimiter, type Logger, Observability, RateLimiter } from '@bureau/runtime'
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { createApp } from './app.ts'
import { type AttachmentAccess, createAttachmentAccess } from './attachments/attachment-access.ts'
import { BlobStore } from './attachments/blob-store.ts'
import { openBackends, openFileStores } from './backends.ts'
import { closeToOthers } from './close-to-others.ts'
import { RunExecutor } from './runs/execute/run-executor.ts'
import { executeRun, type ExecuteOptions } from './runs/execute/execute-run.ts'
import { type StartUp, loadPlatformConfig, type PlatformConfig } from './config.ts'
import type { Platform } from './context.ts'
import { Overload } from './http/overload.ts'
import { AgencyMounts } from './mount/agency-mounts.ts'
import { StagedUploads } from './mount/staged-uploads.ts'
import { openSignIns } from './oauth/open-sign-ins.ts'
import { SqlTokenStore } from './oauth/token-store.sql.ts'
import { openPlatformStore, type PlatformStore } from './platform-store.ts'
import type { TakenRun } from './runs/recover/take-up-run.ts'
import { Replica } from './runs/recover/replica.ts'
import type { RunView } from './run-records/run-view.ts'
import type { ControlMessage } from './system/control-channel.ts'
import { startMaintenance } from './system/maintenance.ts'
import { startError } from './start-error.ts'
import { deliverNotifications } from './webhooks/deliver-notifications.ts'
import { deliverWebhooks } from './webhooks/deliver-webhooks.ts'
import { WebhookDeliverer } from './webhooks/webhook-deliverer.ts'
import { VERSION } from './version.ts'

type PlatformOptions = {
  /** The agencies that integrations can publish, by the id that they are named by. */
  readonly agencies: ReadonlyMap<string, Agency>
  /** Models and tool servers of the process. */
  readonly environment: RunEnvironment
  /** Default: from the environment. */
  readonly config?: PlatformConfig
  readonly log?: Logger
}

const PlatformChecks = z.strictObject({
  agencies: z.instanceof(Map, { error: 'must be a Map of agencies' }),
  environment: z.strictObject({
    models: z.unknown(),
    mcp: z.unknown(),
    oauth: z.unknown().optional(),
    now: AnyFunction,
    observer: z.unknown().optional(),
  } satisfies OptionChecks<RunEnvironment>),
  config: z.unknown().optional(),
  log: z.unknown().optional(),
} satisfies OptionChecks<PlatformOptions>)

/** A platform that is ready to serve. Closing `app` lets runs finish, and closes everything. */
export type OpenPlatform = { readonly platform: Platform; readonly app: FastifyInstance }

/**
 * Opens the records, ends what an earlier process left behind, and makes the app. It does not listen yet.
 *
 * @throws ConfigError an option, the environment or the data folder is not fit. @throws StartError the data folder or the database
 *   cannot be used.
 */
export async function openPlatform(options: PlatformOptions): Promise<OpenPlatform> {
  readOptions('openPlatform', PlatformChecks, options)
  const config = options.config ?? loadPlatformConfig()
  const log = options.log ?? createLogger(config.logLevel)
  try {
    makeFolder(config.dataFolder)
    const store = await openPlatformStore(config)
    return await equipOrClose(store, { ...options, config, log })
  } catch (error) {
    throw startError(error, config)
  }
}

async function equipOrClose(store: PlatformStore, options: EquipOptions): Promise<OpenPlatform> {
  try {
    closeToOthers(options.config.dataFolder, options.log)
    const opened = await equipPlatform(store, options)
    endWithDatabase(opened, options.log)
    return opened
  } catch (error) {
    await store.db.close()
    throw error
  }
}

/** Without its records a process can do nothing right: whoever started it starts it again. */
function endWithDatabase({ platform }: OpenPlatform, log: Logger): void {
  void platform.store.db.failed.then((error) => {
    log.fatal({ err: error }, 'the database stopped')
    process.exit(1)
  })
}

type EquipOptions = Required<PlatformOptions> & {
  /** Default: from the configuration. */
  readonly access?: AttachmentAccess
}

/** A platform on records that are open already. */
export async function equipPlatform(
  store: PlatformStore,
  { agencies, environment, config, log, access }: EquipOptions,
): Promise<OpenPlatform> {
  const observability = await openObservability(config, agencies, log)
  const observe: ExecuteOptions['observe'] = (traceparent) =>
    observability.observer({ log, headers: { traceparent } }, environment.observer)
  const listener: ControlListener = { store }
  const backends = await openBackends(config, log, (message) => onControlMessage(message, listener))
  const { logs, control } = backends
  const stored = await openFiles(config, log)
  const attachmentAccess = access ?? attachmentAccessOf(config)
  const openTokenStore = (ownerId: string): SqlTokenStore => tokenStore(store, { ownerId, log })
  const startUp: StartUp = {}
  const registry = backends.oauthStates
  const signIns = openSignIns({ agencies, environment, config, startUp, registry, openTokenStore, log })
  const webhooks = startDelivering({ store, attachmentAccess, log })
  const equipment = { store, agencies, signIns, attachmentAccess }
  const executor: RunExecutor = new RunExecutor({
    store,
    logs,
    log,
    execute: async (run, context) => {
      await executeRun(run, context, { ...config, ...stored, ...equipment, observe, log })
      webhooks.wake()
    },
  })
  const replica = await startReplica(config, { store, executor, logs, control, webhooks, log })
  Object.assign(listener, { executor, replica })
  replica.startTimers()
  const platform: Platform = {
    config,
    ...equipment,
    environment,
    replica,
    logs,
    control,
    executor,
    ...stored,
    webhooks,
    observability,
    log,
    rates: new RateLimiter(config.rates),
    guesses: new GuessLimiter(config.wrongKeysPerMinute),
    overload: new Overload(config.maxLagMs),
    startUp,
  }
  const app = await createApp(platform)
  const stopMaintenance = await startMaintenance(platform)
  closeWith(app, platform, async () => {
    await stopMaintenance()
    await webhooks.close()
    await observability.close()
    await signIns.close()
    await backends.close()
    stored.files.close()
  })
  return { platform, app }
}

function openObservability(
  { metrics, tracesEndpoint: endpoint }: PlatformConfig,
  agencies: Platform['agencies'],
  log: Logger,
): Promise<Observability> {
  return Observability.open({ metrics, endpoint, version: VERSION, agencies, log })
}

const attachmentAccessOf = ({ allowedHosts, attachmentPorts }: PlatformConfig): AttachmentAccess =>
  createAttachmentAccess({ allow: allowedHosts, ports: attachmentPorts })

type StoredFiles = Pick<Platform, 'files' | 'blobs' | 'staged' | 'mounts'>

async function openFiles({ filesUrl, dataFolder }: PlatformConfig, log: Logger): Promise<StoredFiles> {
  const files = await openFileStores(filesUrl ?? dataFolder, log)
  const [blobs, uploads] = await Promise.all([files.open('blobs'), files.open('uploads')])
  return { files, blobs: new BlobStore(blobs), staged: new StagedUploads(uploads), mounts: new AgencyMounts(files) }
}

type AmongOthers = Pick<Platform, 'store' | 'executor' | 'logs' | 'control' | 'webhooks' | 'log'>

/** This process among those that work on the same records: it takes up what others have left behind. */
function startReplica(config: PlatformConfig, among: AmongOthers): Promise<Replica> {
  const { store, executor, logs, control, webhooks, log } = among
  return Replica.start({
    db: store.db,
    version: VERSION,
    directUrl: config.directUrl,
    onFenced: (bootId) => executor.fence(bootId),
    onCancels: (cancels) => cancels.forEach(({ runId, mode }) => executor.cancel(runId, mode)),
    onTaken: (run) => {
      logTaken(run, log)
      executor.takeUp(run)
    },
    onEnded: (runs) => {
      announceLostRuns(runs, { logs, log })
      webhooks.wake()
    },
    onDeaths: (bootIds, by) => {
      log.warn({ bootIds, by }, 'processes have died: their runs go on in others')
      control.tell({ type: 'lost_runs' })
    },
    onUnwatched: () => log.warn(UNWATCHED),
    hasSuspect: () => executor.hasSuspect,
    onError: (error) => log.warn({ err: error }, 'a heartbeat or sweep failed; it is repeated'),
  })
}

const UNWATCHED =
  'a session of no live process has the lock of the process that watches the others: their deaths are noticed by heartbeats alone, after 45 seconds'

/** Which run goes on in this process, and why. */
function logTaken({ runId, chatId, before }: TakenRun, log: Logger): void {
  if (!before) return log.warn({ runId, chatId }, 'a run goes on here: its process died before it began')
  const { attempt, stalled, lost, waited } = before
  if (lost) return log.warn({ runId, chatId, attempt, stalled }, 'a run goes on here: its process died')
  const why = waited ? 'it was decided about' : 'its process stops'
  log.info({ runId, chatId, attempt }, `a run goes on here: ${why}`)
}

/** Webhooks and notifications by themselves: receivers of one kind that do not answer keep nobody of the other waiting. */
function startDelivering(sender: Pick<Platform, 'store' | 'attachmentAccess' | 'log'>): Platform['webhooks'] {
  const onError = (error: unknown): void =>
    sender.log.warn({ err: error }, 'webhooks or notifications could not be delivered; it is repeated')
  const deliverers = [deliverWebhooks, deliverNotifications].map(
    (deliver) => new WebhookDeliverer({ deliver: () => deliver(sender), onError }),
  )
  return {
    wake: () => deliverers.forEach((each) => each.wake()),
    close: async () => void (await Promise.all(deliverers.map((each) => each.close()))),
  }
}

function tokenStore(store: PlatformStore, { ownerId, log }: { ownerId: string; log: Logger }): SqlTokenStore {
  const onUnreadable = (error: Error): void => log.warn({ err: error, ownerId }, 'stored tokens cannot be read')
  return new SqlTokenStore({ ...store, ownerId, onUnreadable })
}

function announceLostRuns(runs: readonly RunView[], { logs, log }: Pick<Platform, 'logs' | 'log'>): void {
  log.warn({ runs: runs.map(({ runId }) => runId) }, 'runs of a lost process were ended: nobody goes on with them')
  // Whoever is not reached looks by itself a little later.
  for (const { runId } of runs) logs.nudge(runId).catch(() => {})
}

/** What another process, or this one, has to say. */
function onControlMessage(message: ControlMessage, { store, executor, replica }: ControlListener): void {
  if (message.type === 'cancel') executor?.cancel(message.runId, message.mode)
  else if (message.type === 'lost_runs') replica?.look()
  else void store.authenticator.forget(message.keyId)
}

/** Messages may come before there is anything that they could be about. */
type ControlListener = Pick<Platform, 'store'> & Partial<Pick<Platform, 'executor' | 'replica'>>

/** @param end Ends what the routes do not know of. */
function closeWith(app: FastifyInstance, platform: Platform, end: () => Promise<void>): void {
  const { executor, replica, logs, control, attachmentAccess, overload, store, config, log } = platform
  app.drains.push(async () => {
    await replica.drain().catch((error: unknown) => log.warn({ err: error }, 'draining could not be announced'))
    await executor.drain(config.drainMs)
    // What was given up is anybody's to go on with.
    control.tell({ type: 'lost_runs' })
    logs.sendReadersAway()
  })
  app.addHook('onClose', async () => {
    overload.close()
    await replica.close().catch((error: unknown) => log.warn({ err: error }, 'the end could not be announced'))
    await end()
    await attachmentAccess.dispatcher.close()
    executor.close()
    await store.db.close()
  })
}
