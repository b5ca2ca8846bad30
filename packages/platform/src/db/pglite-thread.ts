import { quickenStart } from '../quick-start.ts'

/** Where the thread of the embedded database begins: how modules are found is settled before most of them are looked for. */
quickenStart()
await import('./pglite-worker.ts')
