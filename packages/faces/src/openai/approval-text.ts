import type { ApprovalRequest } from '@bureau/protocol'

/** What a client reads that has no form for a run that waits until a person has decided. */
export function approvalText({ tool, arguments: args }: ApprovalRequest, url: string | undefined): string {
  const where = url === undefined ? '' : ` The decision is made at ${url}; the run goes on then.`
  return `A person must approve the call ${tool}(${args}) first.${where}`
}
