import type { Operation } from '@bureau/platform/testing'

/**
 * An operation that ends the process after its work and before COMMIT, the time that the module's address says.
 *
 * Imported by the thread of the embedded database, as `killed-inside.ts?source=…&name=…&nth=…`.
 */
const asked = new URL(import.meta.url).searchParams
const module = (await import(asked.get('source') ?? '')) as Record<string, Operation<unknown, unknown>>
const original = module[asked.get('name') ?? '']
if (!original) throw new Error(`there is no operation ${asked.get('name')}`)
let left = Number(asked.get('nth'))

export const killedInside: Operation<unknown, unknown> = {
  ...original,
  source: import.meta.url,
  name: 'killedInside',
  work: async (tx, args) => {
    const result = await original.work(tx, args)
    if (--left === 0) process.kill(process.pid, 'SIGKILL')
    return result
  },
}
