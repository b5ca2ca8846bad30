import type { WireItem } from '@bureau/protocol'
import type { AgentOptions, AnyAgent, ToolResult, ToolUseFunction } from '../agent-options.ts'
import type { InputGuardrail, OutputGuardrail } from '../guardrail.ts'
import { present } from '../../options.ts'
import { toViewItems } from './view-items.ts'

/** The members of an agent of `@openai/agents` that are read; checked where they are used. */
type Members = AgentOptions & {
  /** True: the settings were given, and are not the SDK's own defaults for the model. */
  readonly _modelSettingsExplicitlyConfigured?: boolean
}

/** The options of an agent that does what an agent of `@openai/agents` does, with callbacks that get that SDK's items. */
export function foreignOptions(agent: AnyAgent): AgentOptions {
  const members = agent as unknown as Members
  const { name, instructions, handoffDescription, handoffs, model, tools, mcpServers, mcpConfig, prompt } = members
  const { outputType, toolUseBehavior, resetToolChoice, inputGuardrails = [], outputGuardrails = [] } = members
  const unchanged = { name, instructions, handoffDescription, handoffs, model, tools, mcpServers, mcpConfig, prompt }
  return present({
    ...unchanged,
    outputType,
    resetToolChoice,
    modelSettings: members._modelSettingsExplicitlyConfigured === false ? undefined : members.modelSettings,
    inputGuardrails: inputGuardrails.map((guardrail) => viewInput(agent, guardrail)),
    outputGuardrails: outputGuardrails.map((guardrail) => viewOutput(agent, guardrail)),
    toolUseBehavior: typeof toolUseBehavior === 'function' ? viewResults(toolUseBehavior) : toolUseBehavior,
  })
}

function viewInput(agent: AnyAgent, guardrail: InputGuardrail): InputGuardrail {
  return {
    name: guardrail.name,
    runInParallel: guardrail.runInParallel,
    execute: (args) => guardrail.execute({ ...args, agent, input: asItems(toViewItems(args.input)) }),
  }
}

function viewOutput(agent: AnyAgent, guardrail: OutputGuardrail): OutputGuardrail {
  return {
    name: guardrail.name,
    execute: (args) =>
      guardrail.execute({ ...args, agent, details: { output: asItems(toViewItems(args.details.output)) } }),
  }
}

function viewResults(behavior: ToolUseFunction): ToolUseFunction {
  return (context, results) => behavior(context, results.map(resultView))
}

function resultView(result: ToolResult): ToolResult {
  const rawItem = toViewItems([result.item])[0]
  return Object.assign({ ...result }, { runItem: { type: 'tool_call_output_item', rawItem, output: result.output } })
}

/** What the callbacks were written for; they are typed by the other SDK. */
function asItems(items: readonly unknown[]): readonly WireItem[] {
  return items as readonly WireItem[]
}
