import type { Message, RunEvent, UsageByModel } from '@bureau/protocol'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { runEnvironment } from '../../../tests/support/run-environment.ts'
import { Agency } from './agency/agency.ts'
import { Agent } from './agency/agent.ts'
import { runAgency, type RunOptions } from './run-agency.ts'
import { RunControl } from './run/run-control.ts'
import { tool } from './agency/tool.ts'
import type { RunSpan, StepEnd } from './trace/trace-step.ts'

const environment = runEnvironment()

const weather = tool({
  name: 'get_weather',
  description: 'Tells the weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `Sunny in ${city}.`,
})

function start(options: Partial<RunOptions> = {}) {
  const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: 'Help.', model: 'demo' }) })
  const events: RunEvent[] = []
  const sink = { emit: (event: RunEvent) => void events.push(event), ready: () => undefined }
  const input = { message: 'What is the weather in Paris?', history: [] }
  const run = runAgency(agency, input, { runId: 'r', sink, control: new RunControl(), environment, ...options })
  return { events, run }
}

test('what a tool does that ignores its signal, once its run has ended, is neither shown nor kept', async () => {
  const began = Promise.withResolvers<void>()
  const late = Promise.withResolvers<string>()
  const deaf = tool({
    name: 'get_weather',
    description: 'Tells the weather of a city.',
    parameters: z.object({ city: z.string() }),
    execute: async (_input, { run }) => {
      began.resolve()
      const weather = await late.promise
      run?.emit({ type: 'progress', percent: 100 })
      return weather
    },
  })
  const kept: unknown[] = []
  const journal = {
    stored: (message: Message) => void kept.push(message),
    counted: (answer: UsageByModel) => void kept.push(answer),
    commit: async (state: unknown) => void kept.push(state),
  }
  const control = new RunControl()
  const { events, run } = start({ tools: [deaf], journal, control })
  await began.promise
  control.cancel('immediate')
  const ended = await run
  const before = kept.length

  late.resolve('Sunny.')
  await new Promise(setImmediate)

  expect(ended.status).toBe('cancelled')
  expect(events.at(-1)).toBe(ended)
  expect(kept).toHaveLength(before)
})

test('a tool of the run is there for agents that do not have it, and the journal hears of everything in order', async () => {
  const stored: Message[] = []
  const counted: UsageByModel[] = []
  const journal = {
    stored: (message: Message) => void stored.push(message),
    counted: (answer: UsageByModel) => void counted.push(answer),
    commit: () => undefined,
  }

  const ended = await start({ tools: [weather], journal }).run

  expect(ended.status).toBe('completed')
  expect(stored.map(({ type, role }) => role ?? type)).toEqual([
    'user',
    'function_call',
    'function_call_output',
    'assistant',
  ])
  expect(ended.new_messages).toHaveLength(stored.length)
  expect(counted).toHaveLength(2)
  expect(counted.every(({ usage }) => usage.request_count === 1)).toBe(true)
  expect(ended.usage?.request_count).toBe(2)
})

test('the limits of the run replace those of the agency', async () => {
  const { run } = start({ tools: [weather], maxTurns: 1 })

  expect((await run).error?.code).toBe('max_turns_exceeded')
})

test('the demo model takes a message of quotation marks that never end within its time', async () => {
  const agency = new Agency({
    entryPoint: new Agent({ name: 'Solo', instructions: 'Help.', model: 'demo', tools: [weather] }),
  })
  const message = `weather ${'“'.repeat(400_000)}`
  const sink = { emit: () => undefined, ready: () => undefined }

  const ended = await runAgency(
    agency,
    { message, history: [] },
    { runId: 'r', sink, control: new RunControl(), environment },
  )

  expect(ended.status).toBe('completed')
})

test('a run that was cancelled before its history was summed up does not wait for the summary', async () => {
  const entryPoint = new Agent({ name: 'Solo', instructions: 'Help.', model: 'demo' })
  const agency = new Agency({ entryPoint, summarizeHistory: () => new Promise<string>(() => {}) })
  const overflow = { summary: null, messages: [], spare: 0, keep: async () => {}, failed: () => {} }
  const control = new RunControl()
  const sink = { emit: () => {}, ready: () => undefined }

  control.cancel('immediate')
  const ended = await runAgency(
    agency,
    { message: 'hi', history: [], overflow },
    { runId: 'r', sink, control, environment },
  )

  expect(ended.status).toBe('cancelled')
})

const watching: RunSpan = { child: () => watching, firstOutput: () => {}, end: () => {} }

const broken = (): never => {
  throw new Error('the disk of the log is full')
}

test.each<[string, Partial<RunOptions>]>([
  ['watches its start', { environment: { ...environment, observer: broken } }],
  ['watches its steps', { environment: { ...environment, observer: () => ({ ...watching, child: broken }) } }],
  ['watches its end', { environment: { ...environment, observer: () => ({ ...watching, end: onlyOfRuns }) } }],
  ['keeps what it says', { journal: { stored: broken, counted: broken, commit: broken } }],
])('a run fails, and is over, when what %s throws', async (_, options) => {
  const causes: unknown[] = []
  let isReleased = false
  const readFiles = async () => ({ release: () => void (isReleased = true) })
  const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: 'Help.', model: 'demo' }) })
  const events: RunEvent[] = []

  const ended = await runAgency(
    agency,
    { message: 'hi', history: [], readFiles },
    {
      runId: 'r',
      sink: { emit: (event) => void events.push(event), ready: () => undefined },
      control: new RunControl(),
      environment,
      onFailure: (cause) => void causes.push(cause),
      ...options,
    },
  )

  expect(ended).toMatchObject({ run_id: 'r', status: 'failed', error: { code: 'internal_error' } })
  expect(events.filter(({ type }) => type === 'run.error' || type === 'run.ended')).toMatchObject([
    { type: 'run.error' },
    { type: 'run.ended', status: 'failed' },
  ])
  expect(events.at(-1)).toBe(ended)
  expect(causes).toMatchObject([{ message: 'the disk of the log is full' }])
  expect(isReleased).toBe(true)
})

function onlyOfRuns({ run }: StepEnd): void {
  if (run) broken()
}
