import { launch, type Launched } from './launch.ts'
import { holdStreams, measureLoad, pause, type LoadResult, type Target } from './load.ts'
import { cpuNs, median, residentBytes } from './process-stats.ts'
import { FIRST_DELTA, HELD, type Answering, type Scenario } from './scenarios.ts'

/** One of the two servers that are compared. */
export type Candidate = {
  readonly name: 'proxy' | 'server'
  readonly script: string
  readonly endMark: string
  readonly failMark: string
  readonly environment: Readonly<Record<string, string>>
}

type Running = Candidate & { readonly launched: Launched }

/** How long each part takes. */
export type Effort = {
  readonly rounds: number
  /** Load before the first round of a scenario: pieces of so many milliseconds, and how many of them at most. */
  readonly warmUp: { readonly pieceMs: number; readonly pieces: number }
  /** Load before what is measured of each round. */
  readonly warmUpMs: number
  readonly measureMs: number
  /** Rounds of the part with fresh processes: start-up, idle and held memory. */
  readonly freshRounds: number
  readonly heldStreams: number
}

/** CPU per stream in milliseconds, one number per round. */
export type CpuRounds = Readonly<Record<Candidate['name'], readonly number[]>>

export type Fresh = {
  readonly startUpMs: number
  readonly idleBytes: number
  /** Of an open stream that is silent: resident, and of the heap alone. */
  readonly bytesPerStream: number
  readonly heapPerStream: number
}

const SERVER_CORE = 0

export async function start(candidate: Candidate, upstream: Launched): Promise<Running> {
  const model = { OPENAI_BASE_URL: `http://127.0.0.1:${upstream.port}/v1`, OPENAI_API_KEY: 'sk-bench' }
  const environment = { ...candidate.environment, ...model }
  return { ...candidate, launched: await launch({ script: candidate.script, core: SERVER_CORE, environment }) }
}

/** Every round measures all candidates, in an order that alternates, when each has been warmed up. */
export async function measureCpu(
  scenario: Scenario,
  candidates: readonly Running[],
  { upstream, effort }: { upstream: Launched; effort: Effort },
): Promise<CpuRounds> {
  await setAnswering(upstream, scenario.answering)
  for (const candidate of candidates) await warmUp(candidate, scenario, effort)
  const rounds: Record<Candidate['name'], number[]> = { proxy: [], server: [] }
  for (let round = 0; round < effort.rounds; round++) {
    for (const candidate of round % 2 === 0 ? candidates : candidates.toReversed()) {
      rounds[candidate.name].push(await cpuPerStream(candidate, scenario, effort))
    }
  }
  return rounds
}

/** Pieces in a row that are not cheaper than the best one before them: the process is warm. */
const SETTLED_PIECES = 5

/** What counts as cheaper: less is noise. */
const CHEAPER = 0.97

/**
 * Loads a process until its streams no longer become cheaper. V8 compiles what is called often in threads of the same
 * process, for ten to twenty seconds of full load, and that is no cost of a stream.
 */
async function warmUp(candidate: Running, scenario: Scenario, effort: Effort): Promise<void> {
  const { pieceMs, pieces } = effort.warmUp
  let best = Number.POSITIVE_INFINITY
  let settled = 0
  for (let piece = 0; piece < pieces && settled < SETTLED_PIECES; piece++) {
    const cost = await cpuPerStream(candidate, scenario, { warmUpMs: 0, measureMs: pieceMs })
    settled = cost < best * CHEAPER ? 0 : settled + 1
    best = Math.min(best, cost)
  }
}

/** CPU of one stream in milliseconds. */
async function cpuPerStream(candidate: Running, scenario: Scenario, times: Times): Promise<number> {
  const { cpuNs, streams } = await loadOf(candidate, scenario, times)
  return cpuNs / 1e6 / streams
}

/** Milliseconds to the first delta on an idle server: the median of each round. */
export async function measureFirstDelta(
  candidates: readonly Running[],
  { upstream, effort }: { upstream: Launched; effort: Effort },
): Promise<CpuRounds> {
  await setAnswering(upstream, FIRST_DELTA.answering)
  const rounds: Record<Candidate['name'], number[]> = { proxy: [], server: [] }
  for (let round = 0; round < effort.rounds; round++) {
    for (const candidate of round % 2 === 0 ? candidates : candidates.toReversed()) {
      const { firstDeltaMs } = await loadOf(candidate, FIRST_DELTA, effort)
      rounds[candidate.name].push(median(firstDeltaMs))
    }
  }
  return rounds
}

/** A new process: how long it takes to start, and what it holds idle and per open stream after garbage collection. */
export async function measureFresh(
  candidate: Candidate,
  { upstream, effort }: { upstream: Launched; effort: Effort },
): Promise<Fresh> {
  const { launched } = await start(candidate, upstream)
  await pause(500)
  const idleBytes = residentBytes(launched.pid)
  await setAnswering(upstream, FIRST_DELTA.answering)
  const warm: Scenario = { ...FIRST_DELTA, concurrency: 8 }
  await loadOf({ ...candidate, launched }, warm, { warmUpMs: 0, measureMs: effort.measureMs })
  await setAnswering(upstream, HELD)
  const heapBefore = await launched.collectGarbage()
  const before = residentBytes(launched.pid)
  const release = await holdStreams(targetOf({ ...candidate, launched }, FIRST_DELTA), effort.heldStreams)
  await pause(500)
  const heapPerStream = ((await launched.collectGarbage()) - heapBefore) / effort.heldStreams
  const bytesPerStream = (residentBytes(launched.pid) - before) / effort.heldStreams
  release()
  await launched.stop()
  return { startUpMs: launched.startUpMs, idleBytes, bytesPerStream, heapPerStream }
}

type Times = { readonly warmUpMs: number; readonly measureMs: number }

/** @throws Error when one stream was not what it should be: a rate of broken answers means nothing. */
async function loadOf(candidate: Running, scenario: Scenario, times: Times): Promise<LoadResult> {
  const { concurrency, answering } = scenario
  // The proxy passes one answer on: where that is function calls, it has no text.
  const deltas = answering.rounds.length > 0 && candidate.name === 'proxy' ? null : answering.deltas
  const readCpuNs = (): number => cpuNs(candidate.launched.pid)
  const result = await measureLoad(targetOf(candidate, scenario), { concurrency, deltas, readCpuNs, ...times })
  if (result.broken === 0 && result.streams > 0) return result
  throw new Error(`${candidate.script}, ${scenario.name}: ${result.broken} broken streams: ${result.firstProblem}`)
}

function targetOf({ launched, endMark, failMark }: Running, { agency, history }: Scenario): Target {
  const message = 'What is the weather in Paris?'
  return {
    port: launched.port,
    path: `/${agency}/get_response_stream`,
    body: JSON.stringify(history === 0 ? { message } : { message, chat_history: earlierMessages(history) }),
    endMark,
    failMark,
  }
}

/** Questions and answers as the server itself has returned them. */
function earlierMessages(count: number): readonly object[] {
  return Array.from({ length: count }, (_, place) => {
    const isAnswer = place % 2 === 1
    const text = `${isAnswer ? 'It is mild' : 'How is the weather'} in the city with the number ${place}.`
    return {
      ...(isAnswer
        ? { id: `msg_${String(place).padStart(48, '0')}`, type: 'message', status: 'completed', role: 'assistant' }
        : { role: 'user', type: 'message' }),
      content: isAnswer ? [{ type: 'output_text', annotations: [], logprobs: [], text }] : text,
      agent: 'Assistant',
      callerAgent: null,
      agent_run_id: `agent_run_${String(place).padStart(32, '0')}`,
      run_trace_id: `trace_${'0'.repeat(32)}`,
      history_protocol: 'responses',
      timestamp: 1_760_000_000_000_000 + place,
    }
  })
}

async function setAnswering(upstream: Launched, answering: Answering): Promise<void> {
  const url = `http://127.0.0.1:${upstream.port}/answering`
  await fetch(url, { method: 'PUT', body: JSON.stringify(answering), signal: AbortSignal.timeout(5000) })
}
