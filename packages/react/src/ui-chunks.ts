import type { Part, Run } from '@bureau/client'
import type { UIMessage, UIMessageChunk } from 'ai'

/** A part of a message that is over. */
export function uiPartOf(part: Part): UIMessage['parts'][number] {
  if (part.parent === null && (part.type === 'text' || part.type === 'reasoning')) {
    return { type: part.type, text: part.text, state: 'done' }
  }
  if (part.parent === null && part.type === 'tool') {
    const { id: toolCallId, name: toolName, input, output, state } = part
    const call = { type: 'dynamic-tool', toolName, toolCallId, input, providerExecuted: true } as const
    return state === 'done'
      ? { ...call, state: 'output-available', output }
      : { ...call, state: 'output-error', errorText: NOT_DONE }
  }
  // Of all others, the one chunk is the part.
  return changes(undefined, part)[0] as UIMessage['parts'][number]
}

/** A message that is there already, and the parts in it of the run that goes on. */
export type Begun = { readonly id: string; readonly parts: readonly Part[] }

type Reading = {
  /** The message with which the run goes on; null: it begins one of its own. */
  readonly onto: Begun | null
  /** The messages that have the first parts of runs, by run: also when these are resumed. */
  readonly begun: Map<string, string>
  /** Resolves when an answer that is read at the same time has ended. */
  readonly before: Promise<void>
  /** Nobody reads any more. */
  readonly leave: () => void
}

/** A run as the AI SDK reads it: what has changed of its parts, again and again. */
export function chunksOf(
  run: Run,
  { onto, begun, before, leave }: Reading,
): { readonly chunks: ReadableStream<UIMessageChunk>; readonly ended: Promise<void> } {
  const partsBefore = (onto?.parts ?? []).map((part) => [part.id, part] as const)
  let shown = new Map<string, Part>(partsBefore)
  let end = (): void => {}
  const ended = new Promise<void>((resolve) => (end = resolve))
  const chunks = new ReadableStream<UIMessageChunk>({
    async start(controller) {
      /** What was shown as calls. When it turns out that one is a message to another agent, it ends as a call all the same. */
      const calls = new Set<string>()
      /** The same in every replay, so that the message takes its own place. None: it goes on with the last one. */
      let messageId: { readonly messageId?: string } = {}
      let isBegun = false
      /** A message begins when there is something in it. */
      const send = (...chunks: readonly UIMessageChunk[]): void => {
        if (!isBegun) chunks = [{ type: 'start', ...messageId }, { type: 'start-step' }, ...chunks]
        isBegun = true
        for (const chunk of chunks) controller.enqueue(chunk)
      }
      const sendChanges = (): void => {
        for (const part of run.parts) {
          const last = shown.get(part.id)
          if (last === part) continue
          send(...changes(last, part))
          shown.set(part.id, part)
          if (part.type === 'tool' && part.parent === null) calls.add(part.id)
          if (part.type === 'agent' && calls.has(part.id)) {
            const call = { ...part, type: 'tool' } as const
            send(...toolChanges({ ...call, state: 'running' }, call))
          }
        }
      }
      try {
        const { run: id } = await run.started
        if (onto?.parts.length) begun.set(id, onto.id)
        if (onto === null) messageId = { messageId: begun.get(id) ?? `${id}-answer` }
        for await (const { type } of run) {
          if (type === 'run_resumed' || type === 'reset') {
            // What is withdrawn can be taken away only with all else of the run, which then comes again.
            send({ type: 'reset-step' })
            shown = new Map(partsBefore)
          }
          sendChanges()
        }
        const { usage } = await run.result
        sendChanges()
        send({ type: 'finish-step' }, { type: 'finish', messageMetadata: { usage } })
      } catch (error) {
        sendChanges()
        await before
        controller.enqueue({ type: 'error', errorText: error instanceof Error ? error.message : String(error) })
      }
      controller.close()
      // Its reader learns of the end first.
      setTimeout(end)
    },
    cancel: () => {
      leave()
      end()
    },
  })
  return { chunks, ended }
}

function changes(before: Part | undefined, part: Part): UIMessageChunk[] {
  const { id } = part
  if (part.parent !== null) return [{ type: 'data-nested', id, data: part }]
  switch (part.type) {
    case 'text':
    case 'reasoning':
      return textChanges(before, part)
    case 'tool':
      return toolChanges(before, part)
    case 'agent':
      return [{ type: 'data-agent', id, data: part }]
    case 'file':
      return [{ type: 'file', mediaType: part.mediaType, url: `data:${part.mediaType};base64,${part.data}` }]
    case 'sign-in':
      return [{ type: 'data-sign-in', id, data: part }]
    case 'custom':
      return [{ type: 'data-custom', id, data: part }]
  }
}

function textChanges(before: Part | undefined, part: Extract<Part, { type: 'text' | 'reasoning' }>): UIMessageChunk[] {
  const { id, type, text, state } = part
  const known = before?.type === type ? before : undefined
  const delta = text.slice(known?.text.length ?? 0)
  return [
    ...(known ? [] : [{ type: `${type}-start` as const, id }]),
    ...(delta === '' ? [] : [{ type: `${type}-delta` as const, id, delta }]),
    ...(state === 'done' && known?.state !== 'done' ? [{ type: `${type}-end` as const, id }] : []),
  ]
}

/** What whoever decides may want to know, beside the call. */
function descriptorOf({ approval }: Extract<Part, { type: 'tool' }>) {
  return (
    approval && { approvalDescriptor: { edit: approval.edit, agent: approval.agent, expires_at: approval.expires_at } }
  )
}

/** The page has nothing to carry out, and nothing to send when all calls are done. */
const AT_SERVER = { dynamic: true, providerExecuted: true } as const

const NOT_DONE = 'The run ended before the tool did.'

function toolChanges(before: Part | undefined, part: Extract<Part, { type: 'tool' }>): UIMessageChunk[] {
  const { id: toolCallId, name: toolName, input, state, output } = part
  const known = before?.type === 'tool' ? before : undefined
  const common = { toolCallId, toolName, ...AT_SERVER } as const
  const start = known ? [] : [{ type: 'tool-input-start' as const, ...common }]
  if (state === 'input') {
    const inputTextDelta = String(input).slice(typeof known?.input === 'string' ? known.input.length : 0)
    return [
      ...start,
      ...(inputTextDelta === '' ? [] : [{ type: 'tool-input-delta' as const, toolCallId, inputTextDelta }]),
    ]
  }
  const wasWritten = known !== undefined && known.state !== 'input'
  const written = wasWritten ? [] : [{ type: 'tool-input-available' as const, ...common, input }]
  if (state === 'approval')
    return [
      ...start,
      ...written,
      { type: 'tool-approval-request', approvalId: toolCallId, toolCallId, ...descriptorOf(part) },
    ]
  if (state === 'done')
    return [...start, ...written, { type: 'tool-output-available', toolCallId, output, dynamic: true }]
  if (state === 'stopped')
    return [...start, ...written, { type: 'tool-output-error', toolCallId, errorText: NOT_DONE, dynamic: true }]
  return [...start, ...written]
}
