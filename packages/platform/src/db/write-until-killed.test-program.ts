import { PgliteDatabase } from './database.pglite.ts'
import { equipStore } from '../platform-store.ts'
import { Replica } from '../runs/recover/replica.ts'
import { addTenant, modelCall } from '../test-store.contract.ts'

// A process for a test: admits and ends runs without pause, prints what was acknowledged, and waits to be killed.
const [folder, masterKey] = process.argv.slice(2)
if (!folder || !masterKey) throw new Error('usage: <folder> <master key>')

const db = await PgliteDatabase.open({ folder })
const store = await equipStore(db, {
  masterKey: new Uint8Array(Buffer.from(masterKey, 'hex')),
  issuer: 'https://test.example',
})
const ignore = (): void => {}
const replica = await Replica.start({ db, version: 'test', onFenced: ignore, onCancels: ignore, onError: ignore })
const tenant = await addTenant(store, replica.bootId, { memberAllowancesEnabled: true })
await tenant.addMember('u', { maxConcurrentRuns: 1000 })

const say = (runId: string, state: string): boolean => process.stdout.write(`${JSON.stringify({ runId, state })}\n`)

async function admitForEver(name: string): Promise<never> {
  for (let n = 0; ; n++) {
    const admission = await tenant.admit({ consumerId: 'u', usageRequestId: `${name}-${n}` })
    say(admission.run.runId, 'reserved')
    await tenant.start(admission)
    if (n % 3 === 0) continue // some are left running
    await tenant.finish(admission, { calls: [modelCall(1)] })
    say(admission.run.runId, 'completed')
  }
}

await Promise.all(['a', 'b', 'c'].map(admitForEver))
