import type { WireItem } from '@bureau/protocol'
import type { RunContext } from './run-context.ts'

/** An agent as its callbacks see it. */
export type NamedAgent = { readonly name: string }

/** What a guardrail has found. `outputInfo` of a tripped one is its guidance, meant for the conversation. */
export type GuardrailResult = { readonly tripwireTriggered: boolean; readonly outputInfo?: unknown }

export type InputGuardrailArguments = {
  readonly agent: NamedAgent
  /** The conversation so far, the new message included: Responses API items. */
  readonly input: readonly WireItem[]
  readonly context: RunContext
}

/** Checks what a user sends to an agent. */
export type InputGuardrail = {
  readonly name: string
  /** True: while the model is asked already. Default false: before it, so that a refused message costs no request. */
  readonly runInParallel?: boolean | undefined
  execute(args: InputGuardrailArguments): Promise<GuardrailResult>
}

export type OutputGuardrailArguments<Answer = unknown> = {
  readonly agent: NamedAgent
  /** The final output: text, or an object when the agent has a structured output type. */
  readonly agentOutput: Answer
  readonly context: RunContext
  /** What the agents have produced in this run so far, as Responses API items. */
  readonly details: { readonly output: readonly WireItem[] }
}

/** Checks what an agent answers. */
export type OutputGuardrail<Answer = unknown> = {
  readonly name: string
  execute(args: OutputGuardrailArguments<Answer>): Promise<GuardrailResult>
}
