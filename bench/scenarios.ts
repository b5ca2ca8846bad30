export type FunctionCall = { readonly name: string; readonly arguments: string }

/** What the stand-in for the provider answers, and how fast. */
export type Answering = {
  /** Function calls that come before the text: one answer for each list. */
  readonly rounds: readonly (readonly FunctionCall[])[]
  /** Text deltas of the last answer. */
  readonly deltas: number
  /** Milliseconds between two deltas, each in a packet of its own; 0 sends the whole answer at once. */
  readonly paceMs: number
  /** Stops for good after this many deltas; null never. */
  readonly holdAfter: number | null
}

export type Scenario = {
  readonly name: string
  readonly answering: Answering
  /** The agency of `server.ts` that is asked. The byte proxy answers for any. */
  readonly agency: 'demo' | 'team'
  /** Earlier messages that come with the request. */
  readonly history: number
  readonly concurrency: number
  /** Largest allowed multiple of the byte proxy's CPU per stream: a first target and the goal. */
  readonly targets: readonly [first: number, goal: number] | null
}

const burst = (deltas: number): Answering => ({ rounds: [], deltas, paceMs: 0, holdAfter: null })

const CALL: FunctionCall = { name: 'get_weather', arguments: '{"city":"Paris"}' }
const HANDOFF: FunctionCall = { name: 'transfer_to_Forecaster', arguments: '{}' }

const PLAIN = { agency: 'demo', history: 0, concurrency: 8, targets: null } as const

/** Where there are several answers, the proxy passes the first one on. */
export const SCENARIOS: readonly Scenario[] = [
  { ...PLAIN, name: '500 deltas in a burst', answering: burst(500), targets: [1.3, 1.1] },
  { ...PLAIN, name: '50 deltas in a burst', answering: burst(50), targets: [2, 1.6] },
  { ...PLAIN, name: '5 deltas in a burst', answering: burst(5), targets: [2.5, 2] },
  { ...PLAIN, name: '50 deltas one by one', answering: { ...burst(50), paceMs: 2 }, concurrency: 32 },
  { ...PLAIN, name: 'one tool round, 5 deltas', answering: { ...burst(5), rounds: [[CALL]] }, targets: [4, 3] },
  {
    ...PLAIN,
    name: 'five tool rounds, 5 deltas',
    answering: { ...burst(5), rounds: Array.from({ length: 5 }, () => [CALL]) },
    targets: [10, 7],
  },
  {
    ...PLAIN,
    name: 'four parallel calls, 5 deltas',
    answering: { ...burst(5), rounds: [[CALL, CALL, CALL, CALL]] },
    targets: [3.5, 2.5],
  },
  {
    ...PLAIN,
    name: 'a handoff, 5 deltas',
    answering: { ...burst(5), rounds: [[HANDOFF]] },
    agency: 'team',
    targets: [4, 3],
  },
  { ...PLAIN, name: '200 earlier messages, 5 deltas', answering: burst(5), history: 200, targets: [2.5, 1.5] },
]

/** One stream at a time, so that the server is idle when a request arrives. */
export const FIRST_DELTA: Scenario = { ...PLAIN, name: 'time to first delta', answering: burst(5), concurrency: 1 }

/** Streams that have shown something and are silent now, as during a long model silence. */
export const HELD: Answering = { ...burst(50), holdAfter: 5 }
