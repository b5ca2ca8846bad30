import type { WireItem } from '@bureau/protocol'
import type { AnyAgent, AnyHandoff } from '../agent-options.ts'
import type { Agent } from '../agent.ts'
import type { AgencyHandoff, HandoffFilter, HandoffFunction, HandoffInput } from '../handoff.ts'
import type { RunContext } from '../run-context.ts'
import { toViewItems, toWireItem, type ViewItem } from './view-items.ts'

/** The members of a handoff of `@openai/agents`. */
type Members = HandoffFunction & {
  readonly isEnabled: AgencyHandoff['isEnabled']
  readonly onInvokeHandoff: (runContext: RunContext, argumentsText: string) => Promise<AnyAgent>
  readonly inputFilter?: (data: RunItems) => RunItems | Promise<RunItems>
}

/** A handoff of `@openai/agents`: it is called as it is, and its filter gets that SDK's items. */
export function adoptHandoff(foreign: AnyHandoff, agent: Agent): AgencyHandoff {
  const handoff = foreign as unknown as Members
  const { toolName, toolDescription, inputJsonSchema, strictJsonSchema, inputFilter } = handoff
  return Object.freeze({
    agent,
    toolName,
    toolDescription,
    inputJsonSchema,
    strictJsonSchema,
    inputFilter: inputFilter && viewFilter(inputFilter),
    isEnabled: (args) => handoff.isEnabled(args),
    invoke: async (runContext, text) => {
      await handoff.onInvokeHandoff(runContext, text)
    },
  } satisfies AgencyHandoff)
}

/** What the filters of that SDK get and return. */
type RunItems = {
  readonly inputHistory: string | readonly ViewItem[]
  readonly preHandoffItems: readonly RunItem[]
  readonly newItems: readonly RunItem[]
  readonly runContext?: RunContext | undefined
}

type RunItem = { readonly type: string; readonly rawItem: ViewItem }

function viewFilter(filter: NonNullable<Members['inputFilter']>): HandoffFilter {
  return async (input: HandoffInput): Promise<HandoffInput> => {
    const kept = await filter({
      inputHistory: toViewItems(input.inputHistory),
      preHandoffItems: toRunItems(input.preHandoffItems),
      newItems: toRunItems(input.newItems),
      runContext: input.runContext,
    })
    const { inputHistory: history } = kept
    return {
      inputHistory: typeof history === 'string' ? [{ role: 'user', content: history }] : history.map(toWireItem),
      preHandoffItems: kept.preHandoffItems.map(({ rawItem }) => toWireItem(rawItem)),
      newItems: kept.newItems.map(({ rawItem }) => toWireItem(rawItem)),
    }
  }
}

function toRunItems(items: readonly WireItem[]): RunItem[] {
  return toViewItems(items).map((rawItem) => ({ type: runItemType(rawItem), rawItem }))
}

function runItemType({ type, output }: ViewItem): string {
  if (type === 'function_call' || type === 'hosted_tool_call') return 'tool_call_item'
  if (type === 'function_call_result') return isTransfer(output) ? 'handoff_output_item' : 'tool_call_output_item'
  return type === 'reasoning' ? 'reasoning_item' : 'message_output_item'
}

function isTransfer(output: unknown): boolean {
  const { text } = output as { text?: unknown }
  return typeof text === 'string' && text.startsWith('{"assistant":')
}
