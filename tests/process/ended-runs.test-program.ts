/** Prints how many bytes of each run that has ended wait for a full collection. Needs `--expose-gc`. */
import { setImmediate as pause } from 'node:timers/promises'
import { Agency, Agent, type ModelTransport, runAgency, RunControl } from '@bureau/framework'
import { runEnvironment } from '../support/run-environment.ts'

const RUNS = 10_000

const response = {
  id: 'resp_1',
  status: 'completed',
  model: 'test',
  output: [{ id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [] }],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}

const model: ModelTransport = {
  name: 'test',
  async request(_request, { observer }) {
    await pause()
    observer.onEvent('response.completed', JSON.stringify({ type: 'response.completed', response }))
    await observer.onBatchEnd()
  },
}

const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: 'Help.', model }) })
const environment = runEnvironment()
const sink = { emit: () => {}, ready: () => undefined }

async function runMany(): Promise<void> {
  for (let left = RUNS; left > 0; left -= 8) {
    const runs = Array.from({ length: 8 }, (_, at) =>
      runAgency(
        agency,
        { message: 'Hello.', history: [] },
        { runId: `${left}-${at}`, sink, control: new RunControl(), environment },
      ),
    )
    for (const { status } of await Promise.all(runs)) if (status !== 'completed') throw new Error(status)
  }
}

const heapAfter = (type: 'major' | 'minor'): number => {
  for (let times = 0; times < 3; times++) globalThis.gc!({ type, execution: 'sync' })
  return process.memoryUsage().heapUsed
}

await runMany() // what is loaded and compiled for the first runs is none of theirs
const before = heapAfter('major')
await runMany()
console.log(Math.round((heapAfter('minor') - before) / RUNS))
