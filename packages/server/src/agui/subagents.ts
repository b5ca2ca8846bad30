import { EventType } from '@ag-ui/core'
import type { EventSource } from '@bureau/protocol'
import { frame } from './frame.ts'
import type { UniqueIds } from './unique-ids.ts'

/** Agents at work on another agent's message: who they are for the client, and that they begin and end. */
export class Subagents {
  readonly #ids: UniqueIds
  /** By the call that asked for them. */
  readonly #active = new Map<string, string>()
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
    return key === undefined ? undefined : (this.#active.get(key) ?? this.#ended.get(key))
  }

  /** @param calledBy - The tool call, as the client knows it, that asked for the subagent. */
  enter(source: EventSource, calledBy: { id: string; subagentRunId: string | undefined } | undefined): string {
    const key = keyOf(source)
    if (key === undefined || this.#active.has(key)) return ''
    const subagentRunId = this.#ids.take(`subagent_${key}`)
    this.#active.set(key, subagentRunId)
    const parent = calledBy?.subagentRunId
    return this.#frame({
      type: EventType.SUBAGENT_STARTED,
      subagentRunId,
      name: source.agent,
      ...(parent !== undefined && { parentSubagentRunId: parent }),
      ...(calledBy && { parentToolCallId: calledBy.id }),
    })
  }

  /** The answer has come back as the result of the call. */
  leave(callId: string): string {
    const subagentRunId = this.#end(callId)
    return subagentRunId === undefined ? '' : this.#frame({ type: EventType.SUBAGENT_FINISHED, subagentRunId })
  }

  fail(source: EventSource, message: string): string {
    const subagentRunId = this.#end(keyOf(source))
    return subagentRunId === undefined ? '' : this.#frame({ type: EventType.SUBAGENT_ERROR, subagentRunId, message })
  }

  /** Those whose answer will not come any more. */
  failAll(message: string): string {
    const left = [...this.#active.values()]
    this.#active.clear()
    return left.map((subagentRunId) => this.#frame({ type: EventType.SUBAGENT_ERROR, subagentRunId, message })).join('')
  }

  #end(key: string | undefined): string | undefined {
    const id = key === undefined ? undefined : this.#active.get(key)
    if (key === undefined || id === undefined) return undefined
    this.#active.delete(key)
    this.#ended.set(key, id)
    return id
  }

  #frame(event: Parameters<typeof frame>[0]): string {
    return this.#announces ? frame(event) : ''
  }
}

function keyOf(source: EventSource): string | undefined {
  return source.callerAgent === null ? undefined : (source.parent_run_id ?? source.agent_run_id)
}
