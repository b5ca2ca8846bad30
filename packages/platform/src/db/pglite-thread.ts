/** Where the thread of the embedded database begins: how modules are found is settled before most of them are looked for. */
await import('../quick-start.ts')
await import('./pglite-worker.ts')
