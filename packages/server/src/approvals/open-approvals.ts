import type { Claims } from '@bureau/runtime'
import type { ServerConfig } from '../config.ts'
import { approvalMsOf, type ServerOptions } from '../options.ts'
import { ApprovalTokens } from './approval-tokens.ts'
import { Approvals } from './approvals.ts'

/** Reads and makes no key before a call has to wait. */
export function openApprovals(
  options: ServerOptions,
  { secrets, directory }: ServerConfig['approvals'],
  claims: Claims,
): Approvals {
  return new Approvals({
    tokens: new ApprovalTokens({ secrets, directory }),
    claims,
    lifeMs: approvalMsOf(options),
    now: Date.now,
  })
}
