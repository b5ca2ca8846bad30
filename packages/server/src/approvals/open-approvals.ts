import type { Claims } from '@bureau/runtime'
import type { ServerConfig } from '../config.ts'
import type { ServerOptions } from '../options.ts'
import { ApprovalTokens } from './approval-tokens.ts'
import { Approvals } from './approvals.ts'

const LIFE_MS = 604_800_000

/** Reads and makes no key before a call has to wait. */
export function openApprovals(
  { approvalMs: lifeMs = LIFE_MS }: ServerOptions,
  { secrets, directory }: ServerConfig['approvals'],
  claims: Claims,
): Approvals {
  return new Approvals({ tokens: new ApprovalTokens({ secrets, directory }), claims, lifeMs, now: Date.now })
}
