import type { Agency } from '../agency/agency.ts'
import { type ModelAccess, resolveModel } from './resolve-model.ts'

/** What keeps agents from being answered, such as a missing key, and their names. */
export type ModelProblem = { readonly agents: readonly string[]; readonly problem: string }

/**
 * Looks at the models of all agents with the keys and addresses of this process, without asking any provider. Requests that bring
 * keys of their own may be answered nevertheless.
 */
export function modelProblems({ agents }: Agency, access: ModelAccess): ModelProblem[] {
  const failures = [...agents.values()].flatMap((agent) => {
    try {
      resolveModel(agent, {}, access)
      return []
    } catch (error) {
      return [{ name: agent.name, problem: error instanceof Error ? error.message : String(error) }]
    }
  })
  const byProblem = Map.groupBy(failures, ({ problem }) => problem)
  return [...byProblem].map(([problem, of]) => ({ agents: of.map(({ name }) => name), problem }))
}
