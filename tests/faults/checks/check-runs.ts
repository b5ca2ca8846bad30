import { isDeepStrictEqual } from 'node:util'
import type { Ask } from '../attempt.ts'
import { answerTo, type ModelCall, turnsOf } from '../model.ts'
import type { Scene } from '../plan.ts'
import type { RecordedUsage, RunRecord } from './run-record.ts'

/** What a fault may make a run fail with. */
const FAILURES = new Set(['runner_lost', 'server_shutdown'])

/** Each run: asked of the model once, answered with what the model said, and counted as what the model gave. */
export async function checkRuns(scene: Scene, runs: readonly RunRecord[]): Promise<void> {
  const { tenant, installation, object } = scene
  const asks = new Map(tenant.attempts.map(({ ask }) => [ask.usageRequestId, ask]))
  await Promise.all(
    runs.map(async (run) => {
      const ask = asks.get(run.usageRequestId ?? '')
      if (!ask) return
      const calls = installation.model.callsOf(ask.number)
      for (const problem of problemsOf(run, ask, calls)) object(`#${ask.number}, ${run.runId}: ${problem}`)
      if (run.status !== 'completed') return
      const { body } = await tenant.call('GET', `/v1/runs/${run.runId}?include=output`)
      if (body.outputText !== answerTo(ask.number)) object(`#${ask.number} is answered with "${body.outputText}"`)
    }),
  )
  for (const attempt of tenant.attempts) {
    const run = runs.find(({ runId }) => runId === attempt.runId)
    const { result } = attempt
    if (attempt.outcome !== 'ended' || !run || !result) continue
    if (result.status !== run.status || (result.error?.code ?? null) !== (run.error?.code ?? null)) {
      const seen = `${result.status} ${result.error?.code ?? ''}`
      object(`I8: the client of ${run.runId} saw ${seen}; it is ${run.status} ${run.error?.code ?? ''}`)
    }
  }
}

function problemsOf(run: RunRecord, { behaviour }: Ask, calls: readonly ModelCall[]): string[] {
  const problems: string[] = []
  const turns = turnsOf(behaviour)
  const hasFailedStrangely = run.status === 'failed' && !FAILURES.has(run.error?.code ?? '')
  if (hasFailedStrangely) problems.push(`failed with ${run.error?.code}`)
  if (calls.length > turns) problems.push(`the model was asked ${calls.length} times instead of ${turns}`)
  if (run.status === 'completed' && calls.length < turns) problems.push(`completed after ${calls.length} model calls`)
  const given = {
    requests: calls.length,
    input: calls.reduce((sum, call) => sum + call.tokens.input, 0),
    output: calls.reduce((sum, call) => sum + call.tokens.output, 0),
  }
  const counted = countOf(run.usage ?? NOTHING)
  const isRight =
    run.status === 'completed'
      ? isDeepStrictEqual(counted, given)
      : counted.requests <= given.requests && counted.input <= given.input && counted.output <= given.output
  if (!isRight) {
    problems.push(`is ${run.status}, counted ${JSON.stringify(counted)}, the model gave ${JSON.stringify(given)}`)
  }
  return problems
}

const NOTHING: RecordedUsage = { request_count: 0, input_tokens: 0, output_tokens: 0, total_tokens: 0 }

const countOf = ({ request_count, input_tokens, output_tokens }: RecordedUsage) => ({
  requests: request_count,
  input: input_tokens,
  output: output_tokens,
})
