import type { Message, RunEvent, UsageByModel, WireItem } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { runEnvironment } from '../../../tests/support/run-environment.ts'
import { Agency } from './agency/agency.ts'
import { Agent } from './agency/agent.ts'
import { handoff } from './agency/handoff.ts'
import { tool } from './agency/tool.ts'
import { UNKNOWN_RESULT } from './loop/carry-out-calls.ts'
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from './models/scripted-model.ts'
import { runAgency } from './run-agency.ts'
import { RunControl } from './run/run-control.ts'
import type { RunJournal, RunResume } from './run/run-journal.ts'
import { RunState } from './run/run-state.ts'

const environment = runEnvironment()

/** What a process leaves behind when it dies: all that was committed. */
type Committed = Pick<RunResume, 'state' | 'messages' | 'usage'>

const NOTHING: Committed = { state: null, messages: [], usage: [] }

/** Commits as a database would, and dies right after a commit, or right before one. */
class DyingJournal implements RunJournal {
  committed: Committed
  commits = 0
  readonly died = Promise.withResolvers<void>()
  readonly #dying: { readonly at: number; readonly written: boolean }
  readonly #messages: Message[]
  readonly #usage: UsageByModel[]

  constructor(before: Committed, dying: { readonly at: number; readonly written: boolean }) {
    this.committed = before
    this.#messages = [...before.messages]
    this.#usage = [...before.usage]
    this.#dying = dying
  }

  stored(message: Message): void {
    this.#messages.push(message)
  }

  counted(answer: UsageByModel): void {
    this.#usage.push(answer)
  }

  commit(state: RunState): Promise<void> {
    const { at, written } = this.#dying
    this.commits++
    if (this.commits > at || (this.commits === at && !written)) return this.#die()
    const stored = JSON.parse(JSON.stringify({ state, messages: this.#messages, usage: this.#usage })) as Committed
    this.committed = { ...stored, state: RunState.parse(stored.state) }
    return this.commits === at ? this.#die() : Promise.resolve()
  }

  #die(): Promise<void> {
    this.died.resolve()
    return new Promise(() => {})
  }
}

type Process = {
  readonly agency: Agency
  readonly journal?: RunJournal
  readonly resume?: RunResume
  readonly control?: RunControl
}

async function runIn({ agency, journal, resume, control = new RunControl() }: Process) {
  const events: RunEvent[] = []
  const ended = await runAgency(
    agency,
    { message: 'Begin.', history: HISTORY },
    {
      runId: 'run_1',
      sink: { emit: (event) => void events.push(event), ready: () => undefined },
      control,
      environment,
      ...(journal && { journal }),
      resume,
    },
  )
  return { ended, events }
}

const HISTORY: Message[] = [
  { role: 'user', content: 'Hello' },
  {
    type: 'message',
    role: 'assistant',
    content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
    agent: 'Lead',
  },
] as never

/** What was said in each conversation, without ids and times, which differ from run to run. */
function said(messages: readonly Message[]): unknown {
  const shown = messages.map(({ type, role, agent, callerAgent, call_id, content, output, name }) => {
    return { type, role, agent, callerAgent, call_id, content, output, name }
  })
  return Object.fromEntries(
    Map.groupBy(shown, ({ agent, callerAgent }) => (callerAgent ? `${callerAgent}, ${agent}` : 'user')),
  )
}

/** How a model answers a conversation: by what was said in it so far. */
function byLast(answers: (last: WireItem, asked: readonly WireItem[]) => readonly WireItem[]): ScriptedModel {
  const respond = modelResponder(({ request }) =>
    answers(
      request.input.findLast((item) => item['role'] !== 'system')!,
      request.input,
    ),
  )
  return new ScriptedModel(Array.from({ length: 30 }, () => respond))
}

const outputsIn = (asked: readonly WireItem[]): number =>
  asked.filter(({ type }) => type === 'function_call_output').length

/**
 * Ten steps: a call, two calls at once, two agents asked at once of which one asks a third, a refused answer, a handoff
 * with a filter, and an answer after one more call.
 */
function tenSteps(made: string[]): Agency {
  const record = tool({
    name: 'record',
    description: 'Records a word.',
    parameters: z.object({ word: z.string() }),
    execute: ({ word }) => {
      made.push(word)
      return `recorded ${word}`
    },
  })
  const worker = (name: string, further: readonly WireItem[]) =>
    new Agent({
      name,
      tools: [record],
      model: byLast((_last, asked) => {
        const done = outputsIn(asked)
        if (done === 0) return [functionCall('record', { word: name }, { callId: `${name}_call` })]
        return done === 1 && further.length > 0 ? further : [assistantMessage(`${name} is done.`)]
      }),
    })
  const deep = worker('Deep', [])
  const left = worker('Left', [])
  const right = worker('Right', [
    functionCall(
      'send_message',
      { recipient_agent: 'Deep', message: 'Deeper.', additional_instructions: '' },
      { callId: 'ask_Deep' },
    ),
  ])
  const closer = new Agent({
    name: 'Closer',
    tools: [record],
    validationAttempts: 1,
    outputGuardrails: [
      {
        name: 'polite',
        execute: async ({ agentOutput }) => ({ tripwireTriggered: agentOutput === 'No.', outputInfo: 'Be polite.' }),
      },
    ],
    model: byLast((_last, asked) => {
      if (outputsIn(asked) === 0) return [functionCall('record', { word: 'last' }, { callId: 'closer_call' })]
      const isCorrected = asked.some(({ content }) => content === 'Be polite.')
      return [assistantMessage(isCorrected ? 'All done, thank you.' : 'No.')]
    }),
  })
  const closing = handoff(closer, {
    inputFilter: (input) => ({
      ...input,
      inputHistory: input.inputHistory.slice(-1),
      preHandoffItems: [],
      newItems: [],
    }),
  })
  const lead = new Agent({
    name: 'Lead',
    tools: [record],
    handoffs: [closing],
    model: byLast((_last, asked) => {
      const record = (word: string) => functionCall('record', { word }, { callId: `lead_${word}` })
      const ask = (name: string) =>
        functionCall(
          'send_message',
          { recipient_agent: name, message: `Look, ${name}.`, additional_instructions: '' },
          { callId: `ask_${name}` },
        )
      const steps: (readonly WireItem[])[] = [
        [record('one')],
        [assistantMessage('Two at once.'), record('two'), record('three')],
        [ask('Left'), ask('Right')],
        [functionCall('transfer_to_Closer', {}, { callId: 'handoff' })],
      ]
      return steps[[0, 1, 1, 2, 2, 3].at(outputsIn(asked)) ?? 3]!
    }),
  })
  return new Agency({
    entryPoint: lead,
    flows: [
      [lead, left],
      [lead, right],
      [right, deep],
    ],
  })
}

describe('a run that is interrupted', () => {
  test('gives the same messages and the same answer from each of its commits, whether that was kept or not', async () => {
    const undisturbed: string[] = []
    const whole = new DyingJournal(NOTHING, { at: Infinity, written: true })
    const { ended } = await runIn({ agency: tenSteps(undisturbed), journal: whole })
    expect(ended).toMatchObject({ status: 'completed', output: 'All done, thank you.' })
    expect(whole.commits).toBeGreaterThan(12)

    for (let at = 1; at <= whole.commits; at++) {
      for (const written of [true, false]) {
        const made: string[] = []
        const agency = tenSteps(made)
        const journal = new DyingJournal(NOTHING, { at, written })
        void runIn({ agency, journal })
        await journal.died.promise

        const resume = { ...journal.committed, attempt: 2, withdrawn: [], lost: true }
        const resumed = await runIn({ agency, resume })

        expect
          .soft(resumed.ended, `commit ${at}`)
          .toMatchObject({ status: 'completed', output: 'All done, thank you.' })
        const unknown = resumed.ended.new_messages.filter(({ output }) => output === UNKNOWN_RESULT).length
        if (unknown === 0)
          expect.soft(said(resumed.ended.new_messages), `commit ${at}`).toEqual(said(ended.new_messages))
        expect.soft(new Set(made).size, `commit ${at}: each call is made once at most`).toBe(made.length)
        expect
          .soft(made.length, `commit ${at}: only a call of unknown result may be missing`)
          .toBeGreaterThanOrEqual(undisturbed.length - unknown)
      }
    }
  })

  test('carries its usage on, and counts what a model was asked for nothing as an estimate', async () => {
    const agency = tenSteps([])
    const journal = new DyingJournal(NOTHING, { at: 2, written: true })
    void runIn({ agency, journal })
    await journal.died.promise
    const before = journal.committed.usage.length

    const lost = await runIn({ agency, resume: { ...journal.committed, attempt: 2, withdrawn: ['msg_1'], lost: true } })
    const handed = await runIn({ agency, resume: { ...journal.committed, attempt: 2, withdrawn: [], lost: false } })

    expect(lost.events[0]).toEqual({ type: 'run.resumed', attempt: 2, withdrawn: ['msg_1'] })
    expect(before).toBe(1)
    expect(handed.ended.usage?.request_count).toBe(14)
    expect(lost.ended.usage?.request_count).toBe(15)
  })

  test.each<[string, Partial<Parameters<typeof tool>[0]>, { calls: number; output: string }]>([
    ['is not made again, and the model reads that nobody knows', {}, { calls: 1, output: UNKNOWN_RESULT }],
    ['that may be repeated is made again', { repeatable: true }, { calls: 2, output: 'paid' }],
    ['is looked up', { lookup: () => 'paid before' }, { calls: 1, output: 'paid before' }],
    ['that was never made is made', { lookup: () => undefined }, { calls: 2, output: 'paid' }],
    [
      'is not made again when it cannot be looked up',
      { lookup: () => Promise.reject(new Error('the bank is closed')) },
      { calls: 1, output: UNKNOWN_RESULT },
    ],
  ])('a call that was begun %s', async (_, options, expected) => {
    const keys: (string | null)[] = []
    const stuck = Promise.withResolvers<void>()
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: z.object({}),
      execute: (_input, { idempotencyKey }) => {
        keys.push(idempotencyKey)
        if (keys.length > 1) return 'paid'
        stuck.resolve()
        return new Promise(() => {})
      },
      ...options,
    })
    const respond = modelResponder(({ request }) =>
      outputsIn(request.input) === 0 ? [functionCall('pay', {}, { callId: 'c1' })] : [assistantMessage('Done.')],
    )
    const model = new ScriptedModel([respond, respond])
    const agency = new Agency({ entryPoint: new Agent({ name: 'Payer', tools: [pay], model }) })
    const journal = new DyingJournal(NOTHING, { at: Infinity, written: true })
    void runIn({ agency, journal })
    await stuck.promise

    const { ended } = await runIn({ agency, resume: { ...journal.committed, attempt: 2, withdrawn: [], lost: true } })

    expect(ended).toMatchObject({ status: 'completed', output: 'Done.' })
    expect(ended.new_messages.find(({ type }) => type === 'function_call_output')?.['output']).toBe(expected.output)
    expect(keys).toHaveLength(expected.calls)
    expect(new Set(keys).size).toBe(1)
    expect(keys[0]).toMatch(/^[\w-]{43}$/)
  })

  test('fails when the agency has no longer what it needs', async () => {
    const journal = new DyingJournal(NOTHING, { at: 1, written: true })
    void runIn({ agency: tenSteps([]), journal })
    await journal.died.promise
    const resume = { ...journal.committed, attempt: 2, withdrawn: [], lost: true }

    const withoutTool = new Agency({ entryPoint: new Agent({ name: 'Lead', model: new ScriptedModel() }) })
    const withoutAgent = new Agency({ entryPoint: new Agent({ name: 'Other', model: new ScriptedModel() }) })

    expect((await runIn({ agency: withoutTool, resume })).ended.error?.code).toBe('agency_changed')
    expect((await runIn({ agency: withoutAgent, resume })).ended.error?.code).toBe('agency_changed')
  })

  test('is handed over at the next step at which no call is half done, and goes on elsewhere without a loss', async () => {
    const made: string[] = []
    const agency = tenSteps(made)
    const journal = new DyingJournal(NOTHING, { at: Infinity, written: true })
    const control = new RunControl()
    control.handOver()

    await runIn({ agency, journal, control })

    expect(control.isHandedOver).toBe(true)
    expect(made).toEqual([])
    const { ended } = await runIn({ agency, resume: { ...journal.committed, attempt: 2, withdrawn: [], lost: false } })
    expect(ended).toMatchObject({ status: 'completed', output: 'All done, thank you.' })
    expect(ended.usage?.request_count).toBe(14)
  })

  test('is not handed over while a call is half done', async () => {
    const control = new RunControl()
    const slowEnds = Promise.withResolvers<void>()
    const made: string[] = []
    const act = (name: string, work: () => void | Promise<void>) =>
      tool({
        name,
        description: 'Acts.',
        parameters: z.object({}),
        execute: async () => {
          made.push(name)
          await work()
          return `${name} is done`
        },
      })
    const agency = new Agency({
      entryPoint: new Agent({
        name: 'Lead',
        tools: [act('quick', () => control.handOver()), act('slow', () => slowEnds.promise)],
        model: byLast((_last, asked) => {
          if (outputsIn(asked) === 0) return ['quick', 'slow'].map((name) => functionCall(name, {}, { callId: name }))
          return [
            assistantMessage(asked.flatMap(({ output }) => (typeof output === 'string' ? output : [])).join(', ')),
          ]
        }),
      }),
    })
    const journal = new DyingJournal(NOTHING, { at: Infinity, written: true })
    const quickIsKept: RunJournal = {
      stored: (message) => journal.stored(message),
      counted: (answer) => journal.counted(answer),
      commit: (state) => {
        const committed = journal.commit(state)
        const [user] = Object.values(state.conversations)
        if (user!.calls.some(({ status }) => status === 'done')) setImmediate(slowEnds.resolve)
        return committed
      },
    }

    await runIn({ agency, journal: quickIsKept, control })
    const { ended } = await runIn({ agency, resume: { ...journal.committed, attempt: 2, withdrawn: [], lost: false } })

    expect(control.isHandedOver).toBe(true)
    expect(ended.output).toBe('quick is done, slow is done')
    expect(made).toEqual(['quick', 'slow'])
  })
})
