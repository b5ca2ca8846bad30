import { EventType } from '@ag-ui/core'
import type { EventSource } from '@bureau/protocol'
import { frame } from './frame.ts'
import type { UniqueIds } from './unique-ids.ts'

/** One agent at work: the call that asked for it, and the subagent that made that call. */
type Active = { readonly id: string; readonly callId: string | undefined; readonly parent: string | undefined }

/** Agents at work on another agent's message: who they are for the client, and that they begin and end. */
export class Subagents {
  readonly #ids: UniqueIds
  readonly #active = new Map<string, Active>()
  readonly #ended = new Map<string, string>()
  readonly #announces: boolean

  /** @param announces - False for clients from before AG-UI 1.0, which do not know the events. */
  constructor(ids: UniqueIds, options: { announces: boolean }) {
    this.#ids = ids
    this.#announces = options.announces
  }

  /** Undefined: the agent that talks with the user. */
  idOf(source: EventSource): string | undefined {
    const key = keyOf(source)
    return key === undefined ? undefined : (this.#active.get(key)?.id ?? this.#ended.get(key))
  }

  /** @param calledBy - The tool call, as the client knows it, that asked for the subagent. */
  enter(source: EventSource, calledBy: { id: string; subagentRunId: string | undefined } | undefined): string {
    const key = keyOf(source)
    if (key === undefined || this.#active.has(key)) return ''
    const { parent_run_id: callId, agent_run_id: runId } = source
    const subagentRunId = this.#ids.take(`subagent_${callId ?? runId}`)
    const parent = calledBy?.subagentRunId
    this.#active.set(key, { id: subagentRunId, callId, parent })
    return this.#frame({
      type: EventType.SUBAGENT_STARTED,
      subagentRunId,
      name: source.agent,
      ...(parent !== undefined && { parentSubagentRunId: parent }),
      ...(calledBy && { parentToolCallId: calledBy.id }),
    })
  }

  /** The answer has come back as the result of the call. `parent`: the subagent that made the call. */
  leave(callId: string | undefined, parent: string | undefined): string {
    const left = [...this.#active].find(([, each]) => each.callId === callId && each.parent === parent)
    const subagentRunId = this.#end(left?.[0])
    return subagentRunId === undefined ? '' : this.#frame({ type: EventType.SUBAGENT_FINISHED, subagentRunId })
  }

  fail(source: EventSource, message: string): string {
    const subagentRunId = this.#end(keyOf(source))
    return subagentRunId === undefined ? '' : this.#frame({ type: EventType.SUBAGENT_ERROR, subagentRunId, message })
  }

  /** Those that go on in a later run. @param interruptsOf - The interrupts that one of them has raised itself. */
  suspendAll(interruptsOf: (subagentRunId: string) => readonly string[]): string {
    const left = [...this.#active.values()].toReversed()
    this.#active.clear()
    return left
      .map(({ id: subagentRunId }) => {
        const outcome = { type: 'suspended' as const, interruptIds: [...interruptsOf(subagentRunId)] }
        return this.#frame({ type: EventType.SUBAGENT_FINISHED, subagentRunId, outcome })
      })
      .join('')
  }

  /** Those whose answer will not come any more. */
  failAll(message: string): string {
    const left = [...this.#active.values()]
    this.#active.clear()
    return left
      .map(({ id: subagentRunId }) => this.#frame({ type: EventType.SUBAGENT_ERROR, subagentRunId, message }))
      .join('')
  }

  #end(key: string | undefined): string | undefined {
    const id = key === undefined ? undefined : this.#active.get(key)?.id
    if (key === undefined || id === undefined) return undefined
    this.#active.delete(key)
    this.#ended.set(key, id)
    return id
  }

  #frame(event: Parameters<typeof frame>[0]): string {
    return this.#announces ? frame(event) : ''
  }
}

/** Two agents may have made calls of the same id. */
function keyOf({ callerAgent, parent_run_id, agent_run_id }: EventSource): string | undefined {
  return callerAgent === null ? undefined : JSON.stringify([callerAgent, parent_run_id ?? agent_run_id])
}
