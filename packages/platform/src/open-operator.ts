import { loadPlatformConfig, type PlatformConfig } from './config.ts'
import { Operator } from './owners/operator.ts'
import { openPlatformStore } from './platform-store.ts'
import { startError } from './start-error.ts'

/**
 * The operator's hand on the records themselves, for commands: an embedded database must not be in use by a server.
 *
 * @param options.mustExist See `openDatabase`.
 * @throws ConfigError, StartError as `openPlatform` does.
 */
export async function openOperator(
  options: { readonly mustExist: boolean },
  config: PlatformConfig = loadPlatformConfig(),
): Promise<{ readonly operator: Operator; readonly close: () => Promise<void> }> {
  try {
    const store = await openPlatformStore(config, options)
    // The agencies are known to servers alone; the next one that starts publishes them.
    const operator = new Operator({ store, agencies: new Map(), log: { info: () => {} } })
    return { operator, close: () => store.db.close() }
  } catch (error) {
    throw startError(error, config)
  }
}
