import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { ask } from '../ask.ts'
import { Agency } from './agency.ts'
import { Agent } from './agent.ts'
import type { AnswersOf } from './answers.ts'

const City = z.object({ city: z.string() })

const cities = new Agent({ name: 'Cities', outputType: City })
const writer = new Agent({ name: 'Writer' })
const desk = new Agent({ name: 'Desk', handoffs: [cities] })

test('an agency knows its agents and what they answer with', () => {
  const agency = new Agency({ entryPoint: desk, agents: [writer], flows: [[desk, cities]] })

  type Answers = NonNullable<(typeof agency)['~answers']>
  expectTypeOf<keyof Answers>().toEqualTypeOf<'Desk' | 'Writer' | 'Cities'>()
  expectTypeOf<Answers['Writer']>().toEqualTypeOf<string>()
  expectTypeOf<Answers['Cities']>().toEqualTypeOf<{ city: string }>()
  // It may hand over, and then the other agent answers.
  expectTypeOf<Answers['Desk']>().toEqualTypeOf<string | { city: string }>()
})

test('an answer has the type of the output, and names that are not there are refused', async () => {
  const agency = new Agency({ entryPoint: [cities, writer] })
  const options = { signal: AbortSignal.abort() }

  expectTypeOf((await ask(agency, 'Hi', { ...options, agent: 'Cities' })).output).toEqualTypeOf<{
    city: string
  } | null>()
  const ended = await ask(agency, 'Hi', options)
  expectTypeOf(ended.output).toEqualTypeOf<string | { city: string } | null>()
  if (ended.status === 'completed') expectTypeOf(ended.output).toEqualTypeOf<string | { city: string }>()
  if (ended.status === 'failed') expectTypeOf(ended.error.message).toEqualTypeOf<string>()
  // @ts-expect-error -- there is no such agent
  await expect(ask(agency, 'Hi', { ...options, agent: 'Nobody' })).rejects.toThrow('there is no agent "Nobody"')
})

test('an output guardrail gets what its agent answers with', () => {
  const passed = { tripwireTriggered: false }
  const ofCities = new Agent({
    name: 'Cities',
    outputGuardrails: [
      {
        name: 'a city',
        execute: async ({ agentOutput }) => {
          expectTypeOf(agentOutput).toEqualTypeOf<{ city: string }>()
          return passed
        },
      },
    ],
    outputType: City,
  })
  const ofWriter = new Agent({
    name: 'Writer',
    outputGuardrails: [
      {
        name: 'a text',
        execute: async ({ agentOutput }) => {
          expectTypeOf(agentOutput).toEqualTypeOf<string>()
          return passed
        },
      },
    ],
  })

  expect([...ofCities.outputGuardrails, ...ofWriter.outputGuardrails].map(({ name }) => name)).toEqual([
    'a city',
    'a text',
  ])
})

test('what is not known may be anything', async () => {
  const any: Agent = writer
  const agency: Agency = new Agency({ entryPoint: any })

  expectTypeOf<AnswersOf<Agent>['x']>().toEqualTypeOf<unknown>()
  expectTypeOf((await ask(agency, 'Hi', { signal: AbortSignal.abort() })).output).toEqualTypeOf<unknown>()
})
