/** What the stand-in for the provider answers, and how fast. */
export type Answering = {
  /** Text deltas of an answer. */
  readonly deltas: number
  /** Milliseconds between two deltas, each in a packet of its own; 0 sends the whole answer at once. */
  readonly paceMs: number
  /** True: a function call first, the text once its result is there. */
  readonly toolRound: boolean
  /** Stops for good after this many deltas; null never. */
  readonly holdAfter: number | null
}

export type Scenario = {
  readonly name: string
  readonly answering: Answering
  readonly concurrency: number
  /** Largest allowed multiple of the byte proxy's CPU per stream: a first target and the goal. */
  readonly targets: readonly [first: number, goal: number] | null
}

const burst = (deltas: number): Answering => ({ deltas, paceMs: 0, toolRound: false, holdAfter: null })

export const SCENARIOS: readonly Scenario[] = [
  { name: '500 deltas in a burst', answering: burst(500), concurrency: 8, targets: [3, 1.5] },
  { name: '50 deltas in a burst', answering: burst(50), concurrency: 8, targets: [6, 2.5] },
  { name: '5 deltas in a burst', answering: burst(5), concurrency: 8, targets: [8, 3.5] },
  { name: '50 deltas one by one', answering: { ...burst(50), paceMs: 2 }, concurrency: 32, targets: null },
  {
    name: 'one tool round, 5 deltas (proxy: one call)',
    answering: { ...burst(5), toolRound: true },
    concurrency: 8,
    targets: null,
  },
]

/** One stream at a time, so that the server is idle when a request arrives. */
export const FIRST_DELTA: Scenario = {
  name: 'time to first delta',
  answering: burst(5),
  concurrency: 1,
  targets: null,
}

/** Streams that have shown something and are silent now, as during a long model silence. */
export const HELD: Answering = { ...burst(50), holdAfter: 5 }
