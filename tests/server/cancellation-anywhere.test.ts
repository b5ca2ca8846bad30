import { Agency, Agent, tool } from '@bureau/framework'
import { array, assert, asyncProperty, boolean, constantFrom, nat, record } from 'fast-check'
import { expect, test } from 'vitest'
import { z } from 'zod'
import {
  cut,
  type Gate,
  hold,
  incomplete,
  reasoning,
  status,
  text,
  textDeltas,
  toolCall,
  type Turn,
  usage,
} from '../support/fake-provider.ts'
import { type Json, startTestServer, type TestServer, type TestStream } from '../support/test-server.ts'

/** Something has happened in a run, or somebody waits until the test lets them go on. */
type Point = { readonly kind: 'frame' | 'end' } | { readonly kind: 'gate'; readonly release: () => void }

/** What happens in one run, in order, whoever it happens to. */
class Points {
  #points: Point[] = []
  #wake: (() => void) | undefined

  add(point: Point): void {
    this.#points.push(point)
    this.#wake?.()
  }

  async next(): Promise<Point> {
    while (this.#points.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve))
    return this.#points.shift()!
  }
}

const message = (recipient: string) => ({ recipient_agent: recipient, message: 'Do it', additional_instructions: '' })
const work = (n: number) => toolCall('work', { ignoresSignal: n % 2 === 0 })

/** Turns of a model, with stops wherever something may be cut off. */
const TURNS: readonly ((gate: () => Gate) => Turn)[] = [
  () => text('Here you are.'),
  (gate) => textDeltas(['Half', hold(gate()), ' of it']),
  (gate) => [hold(gate(), { before: 'headers' }), text('Late')],
  (gate) => [text('Let me see.'), work(1), hold(gate(), { before: 'response.completed' })],
  (gate) => [reasoning({ summary: ['Hm.'] }), work(1), hold(gate()), work(2)],
  () => [work(1), work(2), work(3)],
  () => toolCall('send_message', message('Left')),
  (gate) => [
    toolCall('send_message', message('Left')),
    hold(gate()),
    toolCall('send_message', message('Right')),
    work(1),
  ],
  (gate) => [toolCall('transfer_to_Sales'), hold(gate(), { before: 'response.completed' })],
  () => [toolCall('transfer_to_Sales'), work(1), toolCall('transfer_to_Help')],
  (gate) => [reasoning({ summary: ['Hm.'] }), hold(gate()), text('Thought about it.')],
  () => toolCall('no_such_tool', {}),
  () => [textDeltas(['Half']), cut()],
  () => status(400),
  (gate) => [hold(gate()), incomplete('max_output_tokens', 'Too lo')],
  () => [text('Free of charge.'), usage(null)],
]

async function startScenario(): Promise<{ server: TestServer; begin: (plan: readonly number[]) => Points }> {
  let points = new Points()
  let plan: number[] = []
  const slow = tool({
    name: 'work',
    description: 'Works until it may stop.',
    parameters: z.object({ ignoresSignal: z.boolean() }),
    execute: async ({ ignoresSignal }, { signal }) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      if (!ignoresSignal) signal?.addEventListener('abort', () => reject(new Error('stopped')), { once: true })
      points.add({ kind: 'gate', release: () => resolve('worked') })
      return promise
    },
  })
  const make = (name: string, handoffs: Agent[] = []): Agent =>
    new Agent({ name, instructions: name, model: 'gpt-test', tools: [slow], handoffs })
  const help = make('Help')
  const sales = make('Sales', [help])
  const boss = make('Boss', [sales, help])
  const agency = new Agency({
    entryPoint: boss,
    flows: [
      [boss, make('Left')],
      [boss, make('Right')],
    ],
    maxTurns: 6,
  })
  const server = await startTestServer({ agencies: { firm: agency } })
  const gate = (): Gate => {
    const made = server.provider.gate()
    const current = points
    void made.reached().then(
      () => current.add({ kind: 'gate', release: () => made.release() }),
      () => {}, // The answer was cut off before.
    )
    return made
  }
  server.provider.respond(() => TURNS[plan.shift() ?? 0]!(gate))
  return { server, begin: (turns) => ((plan = [...turns]), (points = new Points())) }
}

/** Reads a stream to its end, or to the client's going away. */
async function follow(stream: TestStream, points: Points): Promise<void> {
  try {
    for (let seen = 0; ; seen++) {
      await stream.until(() => stream.frames.length > seen)
      points.add({ kind: 'frame' })
      if (stream.frames[seen]!.event === 'end') break
    }
  } catch {
    // Hung up.
  }
  points.add({ kind: 'end' })
}

type Stop = 'immediate' | 'after_turn' | 'after_turn, then immediate' | 'twice' | 'hang up'

/** Stops the run. Resolves to the answers of the cancel route, when it was asked. */
async function stopRun(server: TestServer, stream: TestStream, how: Stop): Promise<Json[]> {
  const cancel = (cancel_mode: string) =>
    server.post('/firm/cancel_response_stream', { run_id: stream.runId, cancel_mode })
  if (how === 'hang up') return Promise.all([cancel('immediate'), stream.hangUp()]).then(([answer]) => [answer])
  const modes = { twice: ['immediate', 'immediate'], 'after_turn, then immediate': ['after_turn', 'immediate'] }
  return Promise.all((how in modes ? modes[how as 'twice'] : [how]).map(cancel))
}

function expectComplete(messages: Json[]): void {
  const calls = messages.filter(({ type }) => type === 'function_call').map((item) => item.call_id)
  const outputs = messages.filter(({ type }) => type === 'function_call_output').map((item) => item.call_id)
  expect(new Set(outputs)).toEqual(new Set(calls))
  expect(outputs).toHaveLength(calls.length)
  for (const [index, item] of messages.entries()) {
    if (item.type === 'function_call_output') {
      expect(messages.slice(0, index).map((before) => before.call_id)).toContain(item.call_id)
    }
    if (item.role === 'assistant') expect(item.status).not.toBe('in_progress')
  }
  const ids = messages.flatMap(({ id }) => id ?? [])
  expect(new Set(ids).size).toBe(ids.length)
}

const scenario = record({
  plan: array(nat(TURNS.length - 1), { minLength: 1, maxLength: 8 }),
  stopAt: nat(40),
  stop: constantFrom<Stop>('immediate', 'after_turn', 'after_turn, then immediate', 'twice', 'hang up'),
  releaseFirst: boolean(),
})

test('a run that is stopped at any moment ends with complete messages, its usage, and nothing left behind', async () => {
  const { server, begin } = await startScenario()
  await assert(
    asyncProperty(scenario, async ({ plan, stopAt, stop, releaseFirst }) => {
      const points = begin(plan)
      const stream = await server.stream('/firm/get_response_stream', { message: 'go' })
      await stream.until(({ event }) => event === 'meta')
      const following = follow(stream, points)
      let stopping: Promise<Json[]> | undefined
      for (let count = 0; ; count++) {
        const point = await points.next()
        if (point.kind === 'gate' && releaseFirst) point.release()
        if (count === stopAt) stopping = stopRun(server, stream, stop)
        if (point.kind === 'gate') point.release()
        if (point.kind === 'end') break
      }
      await following
      const answers = (await stopping) ?? []
      begin([])

      for (const { status: code, body } of answers) {
        if (code === 404) continue
        expect(body).toMatchObject({ ok: true, timed_out: false, usage: { request_count: expect.any(Number) } })
        expectComplete(body.new_messages)
      }
      if (stop === 'hang up' && stopping) return
      expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
      expect(stream.result.usage.request_count).toBeLessThanOrEqual(server.provider.modelRequests.length)
      expectComplete(stream.result.new_messages)
      for (const { body } of answers.filter(({ status: code }) => code === 200)) {
        expect(body.new_messages).toEqual(stream.result.new_messages)
        expect(body.cancelled).toBe(stream.result.cancelled ?? false)
      }
      // What is there is fit to go on from.
      const next = { message: 'and now?', chat_history: stream.result.new_messages }
      expect((await server.post('/firm/get_response', next)).status).toBe(200)
      expect(server.provider.rejected).toEqual([])
    }),
    { numRuns: 150 },
  )
})
