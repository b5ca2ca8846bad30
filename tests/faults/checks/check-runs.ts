import type { Ask } from '../attempt.ts'
import { answerTo, type ModelCall, turnsOf } from '../model.ts'
import type { Scene } from '../plan.ts'
import type { RunRecord } from './run-record.ts'

/** One counted request to the model. */
type Entry = {
  readonly run_id: string
  readonly estimated: boolean
  readonly input: number
  readonly output: number
}

/**
 * Each run ends as it would have without the fault: answered with what the model said, each step counted once, each tool
 * called once at most. What the model was asked in vain is counted as an estimate.
 */
export async function checkRuns(scene: Scene, runs: readonly RunRecord[]): Promise<void> {
  const { tenant, installation, object } = scene
  const asks = new Map(tenant.attempts.map(({ ask }) => [ask.usageRequestId, ask]))
  const entries = Map.groupBy(await readEntries(scene), ({ run_id: runId }) => runId)
  await Promise.all(
    runs.map(async (run) => {
      const ask = asks.get(run.usageRequestId ?? '')
      if (!ask) return
      const calls = installation.model.callsOf(ask.number)
      const problems = problemsOf(run, ask, { calls, entries: entries.get(run.runId) ?? [] })
      for (const problem of problems) object(`#${ask.number}, ${run.runId}: ${problem}`)
      if (run.status !== 'completed') return
      const { body } = await tenant.call('GET', `/v1/runs/${run.runId}?include=output`)
      if (body.outputText !== answerTo(ask.number)) object(`#${ask.number} is answered with "${body.outputText}"`)
    }),
  )
  checkToolCalls(scene)
  checkSeenEnds(scene, runs)
}

/** Clients who saw an end saw the right one. */
function checkSeenEnds({ tenant, object }: Scene, runs: readonly RunRecord[]): void {
  for (const attempt of tenant.attempts) {
    const run = runs.find(({ runId }) => runId === attempt.runId)
    const { result } = attempt
    if (attempt.outcome !== 'ended' || !run || !result || result.status === 'waiting') continue
    const [seen, recorded] = [endOf(result), endOf(run)]
    if (seen !== recorded) object(`I8: the client of ${run.runId} saw ${seen}; it is ${recorded}`)
  }
}

function endOf({
  status,
  error,
}: {
  readonly status: string
  readonly error?: { readonly code: string } | null
}): string {
  return `${status} ${error?.code ?? ''}`
}

async function readEntries({ tenant, installation }: Scene): Promise<Entry[]> {
  const process = installation.processes.find(({ isOver }) => !isOver)
  const rows = await process!.rows(`SELECT u.run_id, u.estimated, u.input_tokens::int AS input,
    u.output_tokens::int AS output FROM usage_entries u JOIN runs r ON r.id = u.run_id
    WHERE r.integration_id = '${tenant.integrationId}'`)
  return rows as Entry[]
}

type Counted = { readonly calls: readonly ModelCall[]; readonly entries: readonly Entry[] }

function problemsOf(run: RunRecord, { behaviour, mayFailWith }: Ask, { calls, entries }: Counted): string[] {
  const problems: string[] = []
  const turns = turnsOf(behaviour)
  const answered = entries.filter(({ estimated }) => !estimated)
  const isRight = ({ input, output }: Entry): boolean =>
    calls.some(({ tokens }) => tokens.input === input && tokens.output === output)
  if (run.status === 'failed' && run.error?.code !== mayFailWith) problems.push(`failed with ${run.error?.code}`)
  if (answered.length > turns) problems.push(`${answered.length} answers of the model were counted instead of ${turns}`)
  if (run.status === 'completed' && answered.length < turns)
    problems.push(`only ${answered.length} answers were counted`)
  if (!answered.every(isRight)) problems.push(`counted ${JSON.stringify(answered)}, the model gave something else`)
  // Killed right before a request, a process cannot have told that it was never sent.
  if (entries.length > calls.length + 1)
    problems.push(`the model was asked ${calls.length} times, ${entries.length} are counted`)
  return problems
}

/** Whatever happened to the process that made it, a call is made once at most. */
function checkToolCalls({ installation, object }: Scene): void {
  const made = Map.groupBy(installation.toolCalls, (call) => call)
  for (const [call, times] of made)
    if (times.length > 1) object(`the tool was called ${times.length} times for ${call}`)
}
