import type { AllowancePolicy } from '@bureau/protocol'
import { and, eq, inArray, isNull, sql, type SQL } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { members } from '../db/schema.ts'
import { type MemberRow, policyColumns } from './allowance-policy.ts'

type Change = {
  readonly ownerId: string
  readonly policy: AllowancePolicy
  readonly source: 'member' | 'integration_default'
}

/** Of a member before the change. */
type Changed = Pick<MemberRow, 'id' | 'period' | 'timeZone' | 'anchorDay'>

/** Gives the integration's new default to every member that has no policy of its own. */
export async function changeDefaultPolicy(
  tx: Tx,
  ownerId: string,
  integrationId: string,
  policy: AllowancePolicy,
): Promise<void> {
  const followers = and(
    eq(members.ownerId, ownerId),
    eq(members.integrationId, integrationId),
    eq(members.policySource, 'integration_default'),
    isNull(members.deletedAt),
  )
  const { id, period, timeZone, anchorDay } = members
  const changed = { id, period, timeZone, anchorDay }
  const locked = await tx.select(changed).from(members).where(followers).orderBy(id).for('update')
  // A bounded number of parameters per statement.
  for (let from = 0; from < locked.length; from += 1000) {
    const batch = locked.slice(from, from + 1000)
    await changePolicy(tx, batch, { ownerId, policy, source: 'integration_default' })
  }
}

/** Gives members, locked by the caller, another policy. Their usage is counted anew only where it is for another period. */
export async function changePolicy(tx: Tx, changed: readonly Changed[], change: Change): Promise<void> {
  const { ownerId, policy, source } = change
  await tx
    .update(members)
    .set({
      ...policyColumns(policy),
      policySource: source,
      policyVersion: sql`${members.policyVersion} + 1`,
      version: sql`${members.version} + 1`,
      updatedAt: sql`now()`,
    })
    .where(and(among(changed), eq(members.ownerId, ownerId)))
  const { period, timeZone, anchorDay } = policy
  const moved = changed.filter(
    (before) => before.period !== period || before.timeZone !== timeZone || before.anchorDay !== anchorDay,
  )
  if (moved.length > 0) await carryUsage(tx, ownerId, among(moved))
}

const among = (list: readonly Changed[]): SQL =>
  inArray(
    members.id,
    list.map(({ id }) => id),
  )

/**
 * Makes the current period of the members show what the ledger says was consumed since its start.
 *
 * Another period, zone or anchor day means another row of counters: without this, toggling the period would wipe the
 * usage. Active runs move along, so that what they still spend is counted where it is looked at.
 */
async function carryUsage(tx: Tx, ownerId: string, which: SQL): Promise<void> {
  const target = sql`SELECT ${members.id} AS member_id, ${members.policyVersion} AS policy_version, bounds.ps, bounds.pe
    FROM ${members}, LATERAL allowance_bounds(${members.period}, ${members.timeZone}, ${members.anchorDay}, now()) bounds
    WHERE ${members.ownerId} = ${ownerId} AND ${which}`
  await tx.execute(sql`INSERT INTO allowance_periods (member_id, period_start, period_end, owner_id)
    SELECT member_id, ps, pe, ${ownerId} FROM (${target}) t
    ON CONFLICT (member_id, period_start) DO UPDATE SET period_end = excluded.period_end`)
  await tx.execute(sql`UPDATE runs SET period_start = t.ps FROM (${target}) t
    WHERE runs.member_id = t.member_id AND runs.state IN ('reserved','running','waiting') AND runs.period_start <> t.ps`)
  await tx.execute(sql`WITH t AS (${target}), difference AS (
      SELECT t.member_id, t.ps, t.policy_version, ${missing('messages')}, ${missing('tokens')}, ${missing('cost_micro')}
      FROM t JOIN allowance_ledger l ON l.member_id = t.member_id AND l.kind <> 'grant'
      GROUP BY 1, 2, 3
    ), carried AS (
      INSERT INTO allowance_ledger (owner_id, member_id, period_start, kind, dedupe_key, occurred_at, messages, tokens, cost_micro)
      SELECT ${ownerId}, member_id, ps, 'carry', 'carry:' || extract(epoch FROM ps)::bigint || ':' || policy_version, now(),
        messages, tokens, cost_micro
      FROM difference WHERE messages <> 0 OR tokens <> 0 OR cost_micro <> 0
      ON CONFLICT DO NOTHING RETURNING member_id, period_start, messages, tokens, cost_micro
    )
    UPDATE allowance_periods p SET used_messages = p.used_messages + c.messages, used_tokens = p.used_tokens + c.tokens,
      used_cost_micro = p.used_cost_micro + c.cost_micro
    FROM carried c WHERE p.member_id = c.member_id AND p.period_start = c.period_start`)
}

/** Consumed within the period, less what its counters already hold. */
function missing(unit: 'messages' | 'tokens' | 'cost_micro'): SQL {
  const column = sql.raw(unit)
  const consumed = sql`l.kind <> 'carry' AND l.occurred_at >= t.ps AND l.occurred_at < t.pe`
  return sql`(coalesce(sum(l.${column}) FILTER (WHERE ${consumed}), 0)
    - coalesce(sum(l.${column}) FILTER (WHERE l.period_start = t.ps), 0))::bigint AS ${column}`
}
