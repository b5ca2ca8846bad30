import { appendAudit } from '../audit/audit.repo.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { requireIntegration } from './members.repo.ts'
import { deleteSecretsBelow } from '../security/secrets.ts'
import { CREDENTIALS_SCOPE, credentialPrefix, signInUserOf } from '../security/credential-name.ts'

/** A consumer of an integration, registered or not. */
type Consumer = { readonly ownerId: string; readonly integrationId: string; readonly consumerId: string }

/** Deletes the tokens of tool servers that are kept for a consumer: its next run asks it to sign in again. */
export function forgetTokens(tx: Tx, consumer: Consumer): Promise<void> {
  const prefix = credentialPrefix(signInUserOf(consumer))
  return deleteSecretsBelow(tx, { ownerId: consumer.ownerId, scope: CREDENTIALS_SCOPE, prefix })
}

/** Ends the sign-ins of a consumer. Repeating it changes nothing. @throws ServiceError `integration_not_found` */
export const endSignIns = tenantOperation(
  { source: import.meta.url, name: 'endSignIns', lane: 'interactive' },
  async (tx, args: Consumer & { actor: string }): Promise<void> => {
    const { ownerId, integrationId, consumerId, actor } = args
    await requireIntegration(tx, ownerId, integrationId)
    await forgetTokens(tx, args)
    const details = { consumerId }
    await appendAudit(tx, ownerId, { actor, action: 'sign_ins.ended', target: integrationId, details })
  },
)

/** Ends the sign-ins of completions that named no consumer: those are the owner's own. */
export const endOwnSignIns = tenantOperation(
  { source: import.meta.url, name: 'endOwnSignIns', lane: 'interactive' },
  async (tx, { ownerId, actor }: { ownerId: string; actor: string }): Promise<void> => {
    await deleteSecretsBelow(tx, { ownerId, scope: CREDENTIALS_SCOPE, prefix: credentialPrefix(ownerId) })
    await appendAudit(tx, ownerId, { actor, action: 'sign_ins.ended', target: ownerId })
  },
)
