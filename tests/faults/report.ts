import type { PlanResult } from './plan.ts'

/** One line for a plan, and the evidence below it when something is wrong. */
export function lineOf({ engine, plan, admitted, violations, seconds }: PlanResult): string {
  const verdict = violations.length === 0 ? 'ok  ' : 'FAIL'
  const runs = `${admitted} ${admitted === 1 ? 'run' : 'runs'}`
  const line = `${verdict} ${engine.padEnd(8)} ${plan.title} (${runs}, ${seconds.toFixed(1)} s)`
  return [line, ...violations.map((violation) => `     ${violation.replaceAll('\n', '\n     ')}`)].join('\n')
}

/** A row for each kind of plan on each engine. */
export function tableOf(results: readonly PlanResult[]): string {
  const rows = [...Map.groupBy(results, ({ engine, plan }) => `${plan.group} | ${engine}`)].map(([name, same]) => {
    const admitted = same.reduce((sum, result) => sum + result.admitted, 0)
    const violations = same.filter((result) => result.violations.length > 0).length
    return `| ${name} | ${same.length} | ${admitted} | ${violations} |`
  })
  return ['| plan | engine | repeats | runs admitted | with violations |', '|---|---|---|---|---|', ...rows].join('\n')
}
