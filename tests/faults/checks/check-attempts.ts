import type { Attempt } from '../attempt.ts'
import type { Scene } from '../plan.ts'
import type { RunRecord } from './run-record.ts'

/** I2: what clients were told about their reservations is true. */
export function checkAttempts({ tenant, object }: Scene, runs: readonly RunRecord[]): void {
  const byRequest = new Map(runs.map((run) => [run.usageRequestId, run]))
  if (byRequest.size < runs.length) object('I2: two runs have the same usageRequestId')
  const attempts = Map.groupBy(tenant.attempts, ({ ask }) => ask.usageRequestId)
  for (const run of runs) {
    if (!attempts.has(run.usageRequestId ?? '')) object(`I2: nobody asked for ${run.runId}`)
  }
  for (const [usageRequestId, same] of attempts) {
    for (const problem of problemsOf(same, byRequest.get(usageRequestId))) {
      object(`I2: #${same[0]?.ask.number}: ${problem}`)
    }
  }
  for (const attempt of tenant.attempts) {
    const problem = headerProblem(attempt)
    if (problem) object(`I2: #${attempt.ask.number}: ${problem}`)
  }
}

function problemsOf(same: readonly Attempt[], run: RunRecord | undefined): string[] {
  const problems: string[] = []
  const admitted = same.filter((attempt) => attempt.admitted === 'true')
  if (same.every((attempt) => attempt.admitted === 'false') && run) {
    problems.push(`was always refused (${same.map(({ code }) => code).join(', ')}), and ${run.runId} is there`)
  }
  if (admitted.length > 0 && !run) problems.push(`was admitted as ${admitted[0]?.runId}, which is not there`)
  for (const { runId } of admitted) {
    if (run && runId !== run.runId) problems.push(`was admitted as ${runId}, the record is ${run.runId}`)
  }
  const first = admitted.filter(({ isReplay, status }) => status === 200 && !isReplay)
  if (first.length > 1) problems.push(`was admitted as a new run ${first.length} times`)
  return problems
}

/** Whether the header belongs to the status. */
function headerProblem({ status, admitted, code, runId }: Attempt): string | undefined {
  if (status === null) return undefined
  if (admitted === 'true' && runId === null) return `${status} says that it was admitted, and not as what`
  const expected = HEADERS[status] ?? ['false']
  return expected.includes(admitted) ? undefined : `${status} ${code} with X-Agent-Run-Admitted: ${admitted}`
}

/** A failure after the reservation says so; where it is not known whether there is one, nothing is said. */
const HEADERS: Readonly<Record<number, readonly (string | null)[]>> = {
  200: ['true'],
  422: [null],
  500: ['true', 'false', null],
  503: ['true', 'false'],
}
