import { randomUUID } from 'node:crypto'
import {
  type Agency,
  newMessagesForClient,
  runAgency,
  RunControl,
  type RunEnvironment,
  type RunInput,
  type RunSink,
} from '@bureau/framework'
import type { Message } from '@bureau/protocol'
import type { Logger } from '../log.ts'
import type { LiveRun, RunRegistry } from './run-registry.ts'

export type StartRun = {
  readonly agency: Agency
  /** The agency's name in the route prefix. */
  readonly agencyName: string
  readonly input: RunInput
  readonly sink: RunSink
  readonly userId?: string | null
  readonly log: Logger
}

/** Registers a run and executes it in the background. The run is known to the registry when this returns. */
export async function startRun(environment: RunEnvironment, registry: RunRegistry, start: StartRun): Promise<LiveRun> {
  const runId = randomUUID()
  const control = new RunControl()
  const { promise: ended, resolve } = Promise.withResolvers<Awaited<LiveRun['ended']>>()
  const stored: Message[] = []
  const soFar = (): readonly Message[] => newMessagesForClient(stored, start.input.history)
  const run: LiveRun = { runId, agency: start.agencyName, userId: start.userId ?? null, control, ended, soFar }
  await registry.register(run)
  const startedAt = performance.now()
  void runAgency(start.agency, start.input, {
    runId,
    sink: start.sink,
    control,
    environment,
    journal: { stored: (message) => void stored.push(message), counted: () => {} },
    onFailure: (error) => start.log.warn({ err: error, runId }, 'run failed'),
    onToolFailure: (error, facts) => start.log.warn({ err: error, ...facts }, 'tool failed'),
  }).then((end) => {
    const durationMs = Math.round(performance.now() - startedAt)
    start.log.info({ runId, agency: start.agencyName, status: end.status, durationMs, usage: end.usage }, 'run ended')
    resolve(end)
  })
  return run
}
