import type { CallbackOutcome } from './authorization.ts'

/** What became of a callback: in words for programs, and as a title and a sentence for people. */
export type CallbackAnswer = {
  /** The tool server's name once the sign-in is taken; `detail` says why it was not. */
  readonly result: { readonly status: 'ok' | 'pending'; readonly server: string } | { readonly detail: string }
  readonly title: string
  readonly text: string
}

const BACK = 'You can close this window and go back to your conversation.'
const AGAIN = 'Go back to your conversation and ask again.'

/** How the callback of the sign-in with this state is answered. The texts may hold what came from outside. */
export function answerCallback(outcome: CallbackOutcome, state: string): CallbackAnswer {
  switch (outcome.kind) {
    case 'ended':
      return answerEnded(outcome.flow.status, outcome.flow.server, state)
    case 'pending': {
      const { server } = outcome.flow
      return taken('pending', server, `The sign-in to ${server} is being completed. ${BACK}`)
    }
    case 'no_code':
      return refusal('OAuth callback missing authorization code', `The provider sent no code. ${AGAIN}`)
    case 'unknown':
      return refusal(`Unknown OAuth state: ${state}`, `This sign-in is not known, or too old. ${AGAIN}`)
    case 'settled':
      return refusal(
        `OAuth flow for state ${state} is not pending (status: ${settledStatus(outcome.flow.status)})`,
        `This sign-in was already answered. ${BACK}`,
      )
    case 'user_mismatch':
      return refusal('OAuth callback failed: user_mismatch', 'This sign-in was begun by another user.')
    case 'abandoned':
      return answerAbandoned(state)
  }
}

/** A flow whose code is being exchanged takes no other answer either. */
function settledStatus(status: string): string {
  return status === 'pending' ? 'answered' : status
}

function answerEnded(status: string, server: string, state: string): CallbackAnswer {
  if (status === 'authorized') return taken('ok', server, `You are signed in to ${server}. ${BACK}`)
  if (status === 'error:abandoned') return answerAbandoned(state)
  const reason = status.replace(/^error:/, '')
  return refusal(`OAuth error: ${reason}`, `The sign-in to ${server} did not work: ${reason}. ${AGAIN}`)
}

function answerAbandoned(state: string): CallbackAnswer {
  const text = `The conversation that asked for this sign-in has ended. ${AGAIN}`
  return refusal(`OAuth flow for state ${state} is not awaited any more`, text)
}

function taken(status: 'ok' | 'pending', server: string, text: string): CallbackAnswer {
  return { result: { status, server }, title: status === 'ok' ? 'Signed in' : 'Almost there', text }
}

function refusal(detail: string, text: string): CallbackAnswer {
  return { result: { detail }, title: 'Not signed in', text }
}
