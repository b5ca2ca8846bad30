import { ConfigError } from '@bureau/protocol'

export type RealtimeSdk = typeof import('@openai/agents-realtime')

/**
 * The realtime part of the agents SDK. It is not installed with the server, because it is large and few need it.
 *
 * @throws ConfigError it is not installed.
 */
export async function loadRealtimeSdk(): Promise<RealtimeSdk> {
  try {
    return await import('@openai/agents-realtime')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new ConfigError('enableRealtime: install the package for it: npm install @openai/agents-realtime', {
      cause,
    })
  }
}
