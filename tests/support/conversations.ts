import { Agency, Agent, tool } from '@bureau/framework'
import { z } from 'zod'
import { text, toolCall, type Turn } from './fake-provider.ts'

/** What is said through every protocol, and the agencies that answer. */

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ key: z.string() }),
  execute: ({ key }) => `value of ${key}`,
})

/** A tool that a person decides about. */
export const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: z.object({ euros: z.number() }),
  needsApproval: true,
  execute: ({ euros }) => `paid ${euros}`,
})

/** The same, of which that person may change the arguments; and what it has paid. */
export function editablePay() {
  const paid: number[] = []
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({ euros: z.number() }),
    needsApproval: { when: true, edit: true },
    execute: ({ euros }) => {
      paid.push(euros)
      return `paid ${euros}`
    },
  })
  return { pay, paid }
}

/** One agency for each kind of conversation. */
export function agencies() {
  const agent = (name: string, more: object = {}): Agent =>
    new Agent({ name, instructions: `You are ${name}.`, model: 'gpt-test', ...more })
  const [boss, clerk] = [agent('Boss'), agent('Clerk')]
  const [desk, sales] = [agent('Desk'), agent('Sales')]
  return {
    solo: new Agency({ name: 'Solo', entryPoint: agent('Solo', { tools: [lookUp, pay] }) }),
    nested: new Agency({ name: 'Nested', entryPoint: boss, flows: [[boss, clerk]] }),
    handoff: new Agency({ name: 'Handoff', entryPoint: desk, flows: [[desk, sales, 'handoff']] }),
    object: new Agency({
      name: 'Object',
      entryPoint: agent('Structured', { outputType: z.object({ city: z.string() }) }),
    }),
  }
}

export const PNG = 'iVBORw0KGgo='

type Conversation = {
  readonly name: string
  readonly agency: string
  readonly script: readonly Turn[]
  readonly answer: unknown
  /** What the model that answers the user gets last. */
  readonly history: readonly string[]
}

export const CONVERSATIONS: readonly Conversation[] = [
  { name: 'text', agency: 'solo', script: [text('Paris.')], answer: 'Paris.', history: ['user'] },
  {
    name: 'a tool',
    agency: 'solo',
    script: [toolCall('look_up', { key: 'a' }), text('It is a.')],
    answer: 'It is a.',
    history: ['user', 'function_call', 'function_call_output'],
  },
  {
    name: 'two tools at once',
    agency: 'solo',
    script: [[toolCall('look_up', { key: 'a' }), toolCall('look_up', { key: 'b' })], text('Both.')],
    answer: 'Both.',
    history: ['user', 'function_call', 'function_call', 'function_call_output', 'function_call_output'],
  },
  {
    name: 'an agent that asks another one',
    agency: 'nested',
    script: [
      toolCall('send_message', { recipient_agent: 'Clerk', message: 'Well?' }),
      text('Twelve.'),
      text('We have 12.'),
    ],
    answer: 'We have 12.',
    history: ['user', 'function_call', 'function_call_output'],
  },
  {
    name: 'a handoff',
    agency: 'handoff',
    script: [toolCall('transfer_to_Sales', {}), text('Sales here.')],
    answer: 'Sales here.',
    history: ['user', 'function_call', 'function_call_output', 'system'],
  },
  {
    name: 'a structured answer',
    agency: 'object',
    script: [text('{"city":"Oslo"}')],
    answer: { city: 'Oslo' },
    history: ['user'],
  },
]

/** Protocols of text have an object as its JSON. */
export const plain = (answer: unknown, wanted: unknown): unknown =>
  typeof answer === 'string' && typeof wanted === 'object' ? JSON.parse(answer) : answer
