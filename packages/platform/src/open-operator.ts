import path from 'node:path'
import { makeFolder } from '@bureau/framework'
import { loadPlatformConfig, type PlatformConfig } from './config.ts'
import { Operator } from './owners/operator.ts'
import { openPlatformStore } from './platform-store.ts'
import { loadMasterKeyFile } from './security/master-key.ts'
import { startError } from './start-error.ts'

/**
 * The operator's hand on the records themselves, for commands: an embedded database must not be in use by a server.
 *
 * @throws ConfigError, StartError as `openPlatform` does.
 */
export async function openOperator(
  config: PlatformConfig = loadPlatformConfig(),
): Promise<{ readonly operator: Operator; readonly close: () => Promise<void> }> {
  try {
    makeFolder(config.dataFolder)
    const masterKey = config.masterKey ?? loadMasterKeyFile(path.join(config.dataFolder, 'master.key'))
    const store = await openPlatformStore({ databaseUrl: config.databaseUrl, masterKey, issuer: config.platformId })
    // The agencies are known to servers alone; the next one that starts publishes them.
    const operator = new Operator({ store, agencies: new Map(), log: { info: () => {} } })
    return { operator, close: () => store.db.close() }
  } catch (error) {
    throw startError(error, config)
  }
}
