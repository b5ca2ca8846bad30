import type { OAuthAccess, SignInFailure } from '@bureau/framework'
import type { Logger } from '../log.ts'

/** Failures that are a user's own doing. */
const BY_USERS: ReadonlySet<SignInFailure> = new Set(['denied', 'timeout', 'cancelled'])

/** Tells the log of sign-ins that came to nothing. */
export function logFailures(log: Logger): OAuthAccess['onFailure'] {
  return (error, facts) => log[BY_USERS.has(error.reason) ? 'info' : 'warn']({ err: error, ...facts }, 'sign-in failed')
}
