import { randomId } from '@bureau/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import type { Door } from '../server/credentials.ts'
import { ask, RequestFailed } from '../server/request.ts'
import { failedToast, showToast } from '../ui/toasts.tsx'

/** A change of the platform: says what was done, or why it was not. */
export const useChange = <Input, Answer>(change: (input: Input) => Promise<Answer>, done: string) =>
  useMutation({ ...useSubmit(change, done), onError: failedToast })

/** What takes something away from the platform. */
export const useRemove = (path: string, done: string, door: Door = 'platform') =>
  useChange<void, unknown>(() => ask(door, path, { method: 'DELETE' }), done)

/** A change by a form, which itself shows why it was refused. */
export const useSave = <Input, Answer>(change: (input: Input) => Promise<Answer>, done: string) =>
  useMutation(useSubmit(change, done))

function useSubmit<Input, Answer>(change: (input: Input) => Promise<Answer>, done: string) {
  const queries = useQueryClient()
  return {
    mutationFn: change,
    onSuccess: async () => {
      showToast(done)
      // Everything that was read of the platform is read again.
      await queries.invalidateQueries({ queryKey: ['platform'] })
    },
  }
}

/** What a form adds to a list of the platform, or does: once, also when it is sent again because no answer came. */
export function useCreate<Answer>(path: string, done: string, door: Door = 'platform') {
  const unanswered = useRef<{ readonly body: string; readonly headers: ReturnType<typeof once> }>(undefined)
  return useSave(async (body: object) => {
    const sent = JSON.stringify(body)
    if (unanswered.current?.body !== sent) unanswered.current = { body: sent, headers: once() }
    try {
      const answer = await ask<Answer>(door, path, { method: 'POST', body, headers: unanswered.current.headers })
      unanswered.current = undefined
      return answer
    } catch (error) {
      if (error instanceof RequestFailed && error.status >= 400 && error.status < 500) unanswered.current = undefined
      throw error
    }
  }, done)
}

/** Sent with what must not be done twice. */
export const once = (): { readonly 'idempotency-key': string } => ({ 'idempotency-key': randomId() })
