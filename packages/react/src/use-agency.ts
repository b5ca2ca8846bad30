import type { Client, Input, Run } from '@bureau/client'
import { useEffect, useMemo, useSyncExternalStore } from 'react'
import { Conversation } from './conversation.ts'
import type { ConversationState } from './messages.ts'

export type UseAgencyOptions = {
  /** Made once, outside of the component. */
  readonly client: Client
  /** A name of your own for the chat: under it history and an unfinished run are found again. Default: a new chat for each place where the hook is used. */
  readonly chat?: string | undefined
  /** What becomes of a message that is sent while another is being answered. Default `queue`. */
  readonly whileRunning?: 'queue' | 'reject' | undefined
}

/** A chat with an agency, and what can be done with it. Failures are in `error`; only `send` rejects, and only with `run_active`. */
export type Agency = ConversationState & {
  /** Resolves when the message has been answered, or its run waits for approvals. */
  send(message: string | Input): Promise<void>
  /** Stops the run at the server: `immediate` (default) or `after_turn`. */
  cancel(mode?: 'immediate' | 'after_turn'): Promise<void>
  /** Lets a call that waits be made, with other arguments where its approval says `edit`. */
  approve(callId: string, options?: Parameters<Run['approve']>[1]): Promise<void>
  /** Has the model get the reason instead of the call's output. */
  reject(callId: string, reason?: string): Promise<void>
  /** Sends the last message again, when it failed. */
  retry(): Promise<void>
  /** Puts another text in the place of a message and sends it; what came after it is gone. Not on the platform, which keeps chats. */
  edit(messageId: string, text: string): Promise<void>
  /** Brings earlier messages, when `hasEarlier`. */
  loadEarlier(): Promise<void>
}

/**
 * A chat with an agency of either server: what is shown, and what can be done. It shows nothing by itself.
 *
 * Whatever runs when the component mounts is followed again; when it unmounts, the run goes on without it (on a
 * self-hosted server with the client's `resume`).
 */
export function useAgency({ client, chat, whileRunning = 'queue' }: UseAgencyOptions): Agency {
  const conversation = useMemo(() => new Conversation(client, chat), [client, chat])
  useEffect(() => conversation.open(), [conversation])
  const state = useSyncExternalStore(conversation.subscribe, conversation.state, conversation.state)
  const actions = useMemo(
    () => ({
      send: (message: string | Input) => conversation.send(message, whileRunning === 'queue'),
      cancel: (mode?: 'immediate' | 'after_turn') => conversation.cancel(mode),
      approve: (id: string, options?: Parameters<Run['approve']>[1]) =>
        conversation.decide(id, (run) => run.approve(id, options)),
      reject: (id: string, reason?: string) => conversation.decide(id, (run) => run.reject(id, reason)),
      retry: () => conversation.retry(),
      edit: (messageId: string, text: string) => conversation.edit(messageId, text),
      loadEarlier: () => conversation.loadEarlier(),
    }),
    [conversation, whileRunning],
  )
  return useMemo(() => ({ ...state, ...actions }), [state, actions])
}
