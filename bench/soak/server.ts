/**
 * The server of the endurance test: two agents, a tool that takes a moment, metrics on. On request it says what it
 * holds: memory after garbage collection, open handles, and how many objects of those kinds that leaks are made of.
 */
import { ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { Agency, Agent, RunControl, tool } from '@bureau/framework'
import { runServer } from '@bureau/server'
import { z } from 'zod'
import { followParent } from '../follow-parent.ts'
import type { Sample } from './samples.ts'

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ what: z.string() }),
  execute: async ({ what }, { signal }) => {
    await sleep(50, undefined, { signal: signal ?? undefined })
    return `There is much to say about ${what}.`
  },
})

const helper = new Agent({ name: 'Helper', description: 'Helps.', instructions: 'Help.', model: 'gpt-soak' })
const assistant = new Agent({ name: 'Assistant', instructions: 'Help.', model: 'gpt-soak', tools: [lookUp] })
const agency = new Agency({ name: 'soak', entryPoint: assistant, flows: [[assistant, helper]] })

const problems: string[] = []
const note = (kind: string) => (problem: unknown) => {
  // Ours: objects are counted by an experimental function.
  if (problem instanceof Error && problem.name === 'ExperimentalWarning') return
  const text = problem instanceof Error ? (problem.stack ?? problem.message) : String(problem)
  if (problems.length < 20) problems.push(`${kind}: ${text}`)
}
process.on('unhandledRejection', note('unhandled rejection'))
process.on('uncaughtException', note('uncaught exception'))
process.on('warning', note('warning'))

/** What leaks are made of. */
const KINDS = {
  runs: RunControl,
  'open answers': ServerResponse,
  sockets: Socket,
  timers: setTimeout(() => {}, 0).constructor,
  'abort signals': AbortSignal,
}

function sample(): Sample {
  globalThis.gc?.()
  const counts: Record<string, number> = {}
  for (const [name, kind] of Object.entries(KINDS)) counts[name] = queryObjects(kind, { format: 'count' })
  const handles = process.getActiveResourcesInfo().length
  const { heapUsed, rss, external } = process.memoryUsage()
  return { heapBytes: heapUsed + external, residentBytes: rss, counts: { ...counts, handles }, problems: [...problems] }
}

process.on('message', (message) => {
  if (message === 'sample') process.send?.(sample())
})

await runServer({
  agencies: { soak: agency },
  port: Number(process.env['PORT'] ?? 8000),
  host: '127.0.0.1',
  metrics: true,
  logLevel: 'error',
})
followParent()
