/** What the stand-in for the provider does with the model requests of a run. */
export type Behaviour =
  | 'answer'
  | 'burst'
  | 'tool'
  | 'nested'
  | 'rate_limited_once'
  | 'unauthorized'
  | 'rate_limited'
  | 'server_error'
  | 'garbage'
  | 'web_page'
  | 'cut'
  | 'stall'
  | 'no_answer'

/** What the client does with its stream. */
type Act = 'read' | 'read slowly' | 'cancel' | 'cancel after turn' | 'hang up'

/** How a stream must end: whole, whole with an error in it, whole in any way, or nobody is there to see it. */
type Ending = 'complete' | 'failed' | 'ended' | 'gone'

export type Plan = {
  readonly behaviour: Behaviour
  readonly act: Act
  readonly ending: Ending
  /** How many of a hundred streams follow this plan, roughly. */
  readonly weight: number
}

/** Runs that need the client to end them are cancelled or hung up on; everything else ends by itself. */
const PLANS: readonly Plan[] = [
  { behaviour: 'answer', act: 'read', ending: 'complete', weight: 22 },
  { behaviour: 'burst', act: 'read', ending: 'complete', weight: 4 },
  { behaviour: 'burst', act: 'read slowly', ending: 'complete', weight: 5 },
  { behaviour: 'tool', act: 'read', ending: 'complete', weight: 8 },
  { behaviour: 'nested', act: 'read', ending: 'complete', weight: 5 },
  { behaviour: 'rate_limited_once', act: 'read', ending: 'complete', weight: 3 },
  { behaviour: 'unauthorized', act: 'read', ending: 'failed', weight: 3 },
  { behaviour: 'rate_limited', act: 'read', ending: 'failed', weight: 3 },
  { behaviour: 'server_error', act: 'read', ending: 'failed', weight: 3 },
  { behaviour: 'garbage', act: 'read', ending: 'failed', weight: 3 },
  { behaviour: 'web_page', act: 'read', ending: 'failed', weight: 3 },
  { behaviour: 'cut', act: 'read', ending: 'failed', weight: 5 },
  { behaviour: 'answer', act: 'cancel', ending: 'ended', weight: 6 },
  { behaviour: 'tool', act: 'cancel', ending: 'ended', weight: 3 },
  { behaviour: 'nested', act: 'cancel', ending: 'ended', weight: 3 },
  { behaviour: 'server_error', act: 'cancel', ending: 'ended', weight: 2 },
  { behaviour: 'stall', act: 'cancel', ending: 'ended', weight: 3 },
  { behaviour: 'no_answer', act: 'cancel', ending: 'ended', weight: 2 },
  { behaviour: 'tool', act: 'cancel after turn', ending: 'ended', weight: 4 },
  { behaviour: 'nested', act: 'cancel after turn', ending: 'ended', weight: 2 },
  { behaviour: 'answer', act: 'hang up', ending: 'gone', weight: 4 },
  { behaviour: 'tool', act: 'hang up', ending: 'gone', weight: 1 },
  { behaviour: 'nested', act: 'hang up', ending: 'gone', weight: 1 },
  { behaviour: 'burst', act: 'hang up', ending: 'gone', weight: 1 },
  { behaviour: 'stall', act: 'hang up', ending: 'gone', weight: 2 },
  { behaviour: 'no_answer', act: 'hang up', ending: 'gone', weight: 1 },
]

const TOTAL = PLANS.reduce((sum, { weight }) => sum + weight, 0)

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function choosePlan(random: () => number): Plan {
  let left = random() * TOTAL
  for (const plan of PLANS) {
    left -= plan.weight
    if (left < 0) return plan
  }
  return PLANS[0]!
}

/** The user's message names the behaviour and the run, so that the provider needs no other word of it. */
export function messageOf(behaviour: Behaviour, run: string): string {
  return `soak=${behaviour} run=${run}`
}

const MESSAGE = /soak=(\w+) run=([\w.]+)/

/** Reads the first such message in a request's body. */
export function readMessage(body: string): { behaviour: Behaviour; run: string } | undefined {
  const found = MESSAGE.exec(body)
  return found ? { behaviour: found[1] as Behaviour, run: found[2]! } : undefined
}
