import type { Scene } from '../plan.ts'
import { CANARY } from '../tenant.ts'

/** The invariants of the records, and I12: nothing secret is in them, nor in any log. */
export async function checkRecords({ installation, object }: Scene): Promise<void> {
  const [process] = installation.processes
  if (!process) return
  for (const { invariant, says, rows } of await process.violations()) {
    object(`${invariant}: not true: ${says}: ${JSON.stringify(rows)}`)
  }
  const secrets = [CANARY, installation.apiKey]
  for (const secret of secrets) if (installation.output.includes(secret)) object(`I12: "${secret}" stands in a log`)
  const tables = await process.rows(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'",
  )
  const forms = secrets.flatMap((secret) => [secret, Buffer.from(secret).toString('hex')])
  const isSecret = forms.map((form) => `strpos(to_jsonb(t)::text, '${form}') > 0`).join(' OR ')
  for (const { name } of tables) {
    const [found] = await process.rows(`SELECT count(*)::int AS n FROM "${String(name)}" t WHERE ${isSecret}`)
    if (found?.['n'] !== 0) object(`I12: a secret stands in the table ${String(name)}`)
  }
}
