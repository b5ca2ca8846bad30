import { McpConnections, type ModelAccess, type RunEnvironment } from '@bureau/framework'
import { Agent as HttpAgent } from 'undici'

/** What a process offers to its runs. By default there is no provider to be reached. */
export function runEnvironment(models: Partial<ModelAccess> = {}): RunEnvironment {
  const dispatcher = new HttpAgent()
  return {
    models: {
      api: 'responses',
      baseUrl: 'http://127.0.0.1:9',
      apiKey: 'sk',
      defaultModel: 'demo',
      readKey: () => undefined,
      dispatcher,
      callerDispatcher: dispatcher,
      checkCallerUrl: () => {},
      ...models,
    },
    mcp: new McpConnections(),
    now: Date.now,
  }
}
