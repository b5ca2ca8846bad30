import type { FunctionTool } from '../agency/function-tool.ts'
import type { AgencyHandoff } from '../agency/handoff.ts'
import type { AgentTool } from '../agency/tool.ts'
import { RunFailed } from '../run/run-errors.ts'
import type { CallerFunction, CallerOptions } from '../run/run-input.ts'
import type { Conversation } from './conversation.ts'

/** Made once for each run: descriptions of tools are kept by the tool. */
const made = new WeakMap<CallerOptions, readonly FunctionTool[]>()

/** The functions of the caller, as the model of the addressed agent sees them. Other agents are not offered any. */
export function callerFunctions(
  { agent, state }: Conversation,
  options: CallerOptions | undefined,
): readonly FunctionTool[] {
  if (!options || agent !== state.addressed) return []
  const functions = made.get(options) ?? (options.functions ?? []).map(asTool)
  made.set(options, functions)
  return functions
}

function asTool({ name, description, parameters, strict }: CallerFunction): FunctionTool {
  const invoke = async (): Promise<never> => {
    throw new Error(`the caller carries out ${name}`)
  }
  return { type: 'function', name, description, parameters, strict, invoke }
}

/**
 * A caller must not take the place of something of the agent's: its author relies on what that does.
 *
 * @throws RunFailed `function_name_taken`
 */
export function requireOtherNames(
  functions: readonly FunctionTool[],
  tools: readonly AgentTool[],
  handoffs: readonly AgencyHandoff[],
): void {
  const taken = new Set([...tools.map(({ name }) => name), ...handoffs.map(({ toolName }) => toolName)])
  if (functions.some(({ name }) => taken.has(name))) throw new RunFailed('function_name_taken')
}
