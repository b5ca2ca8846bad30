import { partsOf } from '@bureau/client'
import type { RecentRunDetail } from '@bureau/protocol'
import { type Chat, newChat, titleOf, type Turn } from './chat.ts'

/** A chat that goes on where a run has ended, with the same agent, history, context and instructions. */
export function chatOfRun(run: RecentRunDetail): Chat {
  const { request, new_messages: messages } = run
  const startedAt = Date.parse(run.started_at)
  const turn: Turn = {
    id: run.run_id,
    text: typeof request?.message === 'string' ? request.message : run.message,
    files: [],
    agent: run.agent,
    run: run.run_id,
    status: run.status === 'running' ? 'lost' : run.status,
    parts: partsOf(messages ?? []),
    messages: run.status === 'failed' ? [] : (messages ?? []),
    usage: run.usage,
    error: run.error,
    startedAt,
    endedAt: startedAt + (run.duration_ms ?? 0),
    times: {},
  }
  return {
    ...newChat(run),
    title: titleOf(run.message),
    agent: run.agent,
    earlier: request?.chat_history ?? [],
    options: {
      ...(request?.user_context && { context: request.user_context }),
      ...(request?.additional_instructions && { instructions: request.additional_instructions }),
    },
    turns: [turn],
  }
}
