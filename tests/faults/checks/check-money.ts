import type { Scene } from '../plan.ts'
import type { RunRecord, UsageRecord } from './run-record.ts'

type LedgerEntry = { readonly kind: string; readonly messages: number; readonly tokens: number }

/** I4 as callers see it: counters, ledger, usage records and runs say the same, and every grant counts once. */
export async function checkMoney(scene: Scene, runs: readonly RunRecord[]): Promise<void> {
  const { tenant, object } = scene
  for (const [key, { consumerId, messages }] of tenant.grants) await tenant.grant(consumerId, messages, key)
  const records: UsageRecord[] = await tenant.list(`/v1/usage/records?apiIntegrationId=${tenant.integrationId}`)
  if (records.length < runs.length) object(`I4: ${runs.length} runs have ${records.length} usage records`)
  for (const { runId, usage, debited } of records) {
    if (debited.messages !== 1) object(`I4: ${runId} was charged ${debited.messages} messages`)
    if (debited.tokens !== usage.total_tokens) {
      object(`I4: ${runId} used ${usage.total_tokens} tokens and was charged ${debited.tokens}`)
    }
  }
  for (const consumerId of tenant.consumers) await checkConsumer(scene, consumerId, records)
}

async function checkConsumer(
  { tenant, object }: Scene,
  consumerId: string,
  records: readonly UsageRecord[],
): Promise<void> {
  const member = `/v1/integrations/${tenant.integrationId}/members/${consumerId}`
  const { body: allowance } = await tenant.call('GET', `${member}/allowance`)
  const ledger: LedgerEntry[] = await tenant.list(`${member}/allowance/ledger`)
  const granted = [...tenant.grants.values()].filter((grant) => grant.consumerId === consumerId)
  const sum = (entries: readonly LedgerEntry[], unit: 'messages' | 'tokens'): number =>
    entries.reduce((total, entry) => total + entry[unit], 0)
  const spent = ledger.filter(({ kind }) => kind !== 'grant')
  const grants = ledger.filter(({ kind }) => kind === 'grant')
  const own = records.filter((record) => record.consumerId === consumerId)
  const kept = own.filter(({ refunded }) => !refunded)
  if (allowance.used.messages !== sum(spent, 'messages') || allowance.used.tokens !== sum(spent, 'tokens')) {
    object(`I4: ${consumerId} has used ${JSON.stringify(allowance.used)}, its ledger says otherwise`)
  }
  if (allowance.used.messages !== kept.length) {
    object(`I4: ${consumerId} has used ${allowance.used.messages} messages in ${kept.length} runs that it pays for`)
  }
  if (grants.length !== granted.length || allowance.granted.messages !== sum(grants, 'messages')) {
    object(`I4: ${consumerId} was granted ${granted.length} times, the ledger has ${grants.length} grants`)
  }
  const { body } = await tenant.call('GET', member)
  if (body.activeRuns !== 0) object(`I5: ${consumerId} has ${body.activeRuns} active runs`)
}
