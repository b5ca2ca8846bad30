import { ConfigError, type WireItem } from '@bureau/protocol'
import { z } from 'zod'
import type { Agent } from './agent.ts'
import type { NamedAgent } from './guardrail.ts'
import type { RunContext } from './run-context.ts'
import { functionSchema, unsendable } from './tool-schema.ts'
import { AnyFunction, type OptionChecks, readOptions } from '../options.ts'

/** What a handoff's filter decides about: Responses API items, in the order of the conversation. */
export type HandoffInput = {
  /** What had been said when the run began, the user's message included. */
  readonly inputHistory: readonly WireItem[]
  /** What the agents have produced in earlier turns of the run. */
  readonly preHandoffItems: readonly WireItem[]
  /** The turn of the handoff: its calls and their outputs. */
  readonly newItems: readonly WireItem[]
  readonly runContext?: RunContext | undefined
}

export type HandoffFilter = (input: HandoffInput) => HandoffInput | Promise<HandoffInput>

export type HandoffOptions<Input extends z.ZodObject = z.ZodObject> = {
  /** Default `transfer_to_<agent>`. */
  readonly toolNameOverride?: string
  readonly toolDescriptionOverride?: string
  /** What the model must say when it hands over. */
  readonly inputType?: Input
  /** Called when the model hands over, with its checked input. */
  readonly onHandoff?: (runContext: RunContext, input: z.output<Input>) => void | Promise<void>
  /** Chooses what the next agent sees of the conversation. Default: everything. */
  readonly inputFilter?: HandoffFilter
  /** False: the handoff is not offered in this turn. */
  readonly isEnabled?: boolean | ((args: { runContext: RunContext; agent: NamedAgent }) => boolean | Promise<boolean>)
}

const HandoffChecks = z.strictObject({
  toolNameOverride: z.string().optional(),
  toolDescriptionOverride: z.string().optional(),
  inputType: z.instanceof(z.ZodObject, { error: 'must be a zod object' }).optional(),
  onHandoff: AnyFunction.optional(),
  inputFilter: AnyFunction.optional(),
  isEnabled: z.union([z.boolean(), AnyFunction]).optional(),
} satisfies OptionChecks<HandoffOptions>)

/** A handoff as models see it: a function. */
export type HandoffFunction = Pick<Handoff, 'toolName' | 'toolDescription' | 'inputJsonSchema' | 'strictJsonSchema'>

/** A handoff as a run uses it, whoever has made it. */
export type AgencyHandoff = HandoffFunction & Pick<Handoff, 'agent' | 'inputFilter' | 'isEnabled' | 'invoke'>

/** A permission to hand the conversation over to another agent, and the function by which a model does it. */
export class Handoff {
  readonly agent: Agent
  readonly toolName: string
  readonly toolDescription: string
  readonly inputJsonSchema: Readonly<Record<string, unknown>>
  readonly strictJsonSchema: boolean
  readonly inputFilter: HandoffFilter | undefined
  readonly isEnabled: (args: { runContext: RunContext; agent: NamedAgent }) => Promise<boolean>
  readonly #inputType: z.ZodObject | undefined
  readonly #onHandoff: ((runContext: RunContext, input: never) => void | Promise<void>) | undefined

  /** @throws ConfigError an option is not valid. */
  constructor(agent: Agent, options: HandoffOptions = {}) {
    readOptions(`handoff to "${agent.name}"`, HandoffChecks, options)
    const { inputType, onHandoff, inputFilter, isEnabled = true } = options
    const { parameters, strict } = functionSchema(inputType ?? z.object({}))
    this.agent = agent
    this.toolName = options.toolNameOverride ?? `transfer_to_${agent.name.replace(/[^A-Za-z0-9]/g, '_')}`
    this.toolDescription =
      options.toolDescriptionOverride ??
      `Handoff to the ${agent.name} agent to handle the request. ${agent.handoffDescription}`
    this.inputJsonSchema = parameters
    this.strictJsonSchema = strict
    this.inputFilter = inputFilter
    this.isEnabled = async (args) => (typeof isEnabled === 'function' ? isEnabled(args) : isEnabled)
    this.#inputType = inputType
    this.#onHandoff = onHandoff
    const problem = inputType && unsendable(inputType, 'inputType')
    if (problem !== undefined) throw new ConfigError(`handoff to "${agent.name}": ${problem}`)
    if (inputType !== undefined && !onHandoff) {
      throw new ConfigError(`handoff to "${agent.name}": an inputType needs an onHandoff that gets the input.`)
    }
    Object.freeze(this)
  }

  /**
   * Carries the handoff out.
   *
   * @throws HandoffInputError the model's input is not what `inputType` asks for.
   */
  async invoke(runContext: RunContext, argumentsText: string): Promise<void> {
    await this.#onHandoff?.(runContext, (await this.#parse(argumentsText)) as never)
  }

  async #parse(text: string): Promise<unknown> {
    if (!this.#inputType) return undefined
    try {
      return await this.#inputType.parseAsync(JSON.parse(text || '{}'))
    } catch (cause) {
      throw new HandoffInputError(`The input of ${this.toolName} is not valid.`, { cause })
    }
  }
}

/** A model has handed over with input that the handoff does not take. */
export class HandoffInputError extends Error {
  override readonly name = 'HandoffInputError'
}

/** A handoff with options of its own. Without any, an agent in `handoffs` or a flow of the kind `handoff` is enough. */
export function handoff<Input extends z.ZodObject>(agent: Agent, options: HandoffOptions<Input> = {}): Handoff {
  return new Handoff(agent, options)
}

/** A filter for handoffs: the next agent sees the messages, without calls, their outputs and reasoning. */
export function removeAllTools(input: HandoffInput): HandoffInput {
  const isSaid = ({ type }: WireItem): boolean => type === undefined || type === 'message'
  return {
    ...input,
    inputHistory: input.inputHistory.filter(isSaid),
    preHandoffItems: input.preHandoffItems.filter(isSaid),
    newItems: input.newItems.filter(isSaid),
  }
}
