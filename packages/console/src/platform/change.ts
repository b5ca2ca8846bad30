import { randomId } from '@bureau/client'
import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import type { Door } from '../server/credentials.ts'
import { ask, RequestFailed } from '../server/request.ts'
import { failedToast, showToast } from '../ui/toasts.tsx'

/** Everything that was read of the platform is read again. */
const refresh = (queries: QueryClient): Promise<void> => queries.invalidateQueries({ queryKey: ['platform'] })

/** A change of the platform: says what was done, or why it was not. */
export const useChange = <Input, Answer>(change: (input: Input) => Promise<Answer>, done: string) =>
  useMutation({ ...useSubmit(change, done), onError: failedToast })

/** The same for a form, which itself shows why it was refused. */
export const useSave = <Input, Answer>(change: (input: Input) => Promise<Answer>, done: string) =>
  useMutation(useSubmit(change, done))

function useSubmit<Input, Answer>(change: (input: Input) => Promise<Answer>, done: string) {
  const queries = useQueryClient()
  return {
    mutationFn: change,
    onSuccess: async () => {
      showToast(done)
      await refresh(queries)
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
