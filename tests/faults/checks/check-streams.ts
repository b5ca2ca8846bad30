import type { SseFrame } from '@bureau/protocol'
import type { Attempt } from '../attempt.ts'
import { answerTo } from '../model.ts'
import type { Scene } from '../plan.ts'
import type { RunRecord } from './run-record.ts'

/** I7: what clients saw is in order and without holes, also when they come back behind what they have. */
export async function checkStreams(scene: Scene, runs: readonly RunRecord[]): Promise<void> {
  const { tenant, object } = scene
  await Promise.all(
    tenant.attempts.map(async (attempt) => {
      const run = runs.find(({ runId }) => runId === attempt.runId)
      if (!run) return
      const frames = [...attempt.frames]
      const isWaiting = attempt.result?.status === 'waiting'
      if (isWaiting)
        frames.splice(
          frames.findLastIndex(({ event }) => event === 'end'),
          1,
        )
      if (isWaiting || attempt.outcome === 'broken' || attempt.outcome === 'left')
        frames.push(...(await framesAfter(scene, attempt)))
      for (const problem of problemsOf(frames, run, attempt)) {
        object(`I7: the client of ${run.runId} (${attempt.outcome}): ${problem}`)
      }
    }),
  )
}

async function framesAfter({ tenant, object }: Scene, attempt: Attempt): Promise<SseFrame[]> {
  const resumed = tenant.follow(attempt.ask, attempt.runId ?? '', attempt.lastId)
  await resumed.over
  if (resumed.outcome !== 'ended')
    object(`I7: ${attempt.runId} cannot be followed to its end: ${resumed.outcome} ${resumed.status}`)
  return resumed.frames.filter(({ event }) => event !== 'meta')
}

function problemsOf(frames: readonly SseFrame[], run: RunRecord, { ask }: Attempt): string[] {
  const problems = orderOf(frames)
  const ends = frames.filter(({ event }) => event === 'end')
  if (ends.length > 1 || (ends.length === 1 && frames.at(-1) !== ends[0])) problems.push('end is not the last frame')
  const isWhole = run.status === 'completed' && ends.length === 1
  const text = textOf(frames)
  if (isWhole && !text.includes(answerTo(ask.number))) problems.push(`it saw "${text}"`)
  return problems
}

/** Numbers follow on each other; what is missing is announced. */
function orderOf(frames: readonly SseFrame[]): string[] {
  const problems: string[] = []
  let before = 0
  for (const { id, event } of frames) {
    if (id === null) continue
    const number = Number(id)
    if (number <= before) problems.push(`${number} comes after ${before}`)
    else if (number > before + 1 && !ANNOUNCING.has(event)) problems.push(`${number} comes right after ${before}`)
    before = number
  }
  return problems
}

const ANNOUNCING = new Set<string | null>(['run_resumed', 'reset'])

/** The text in pieces since the run was taken up last, or what a reset put in its place. */
function textOf(frames: readonly SseFrame[]): string {
  const from = frames.findLastIndex(({ event }) => ANNOUNCING.has(event))
  const begin = frames[from]
  const reset = begin?.event === 'reset' ? resetText(begin) : ''
  const deltas = frames.slice(from + 1).flatMap((frame) => (frame.event === null ? [JSON.parse(frame.data).data] : []))
  return (
    reset +
    deltas
      .filter((event) => event?.data?.type === 'response.output_text.delta')
      .map((event) => event.data.delta)
      .join('')
  )
}

function resetText({ data }: SseFrame): string {
  const { partial, new_messages: messages } = JSON.parse(data)
  return partial ? partial.text : JSON.stringify(messages)
}
