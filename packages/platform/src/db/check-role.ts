import { StartError } from '@bureau/protocol'
import type { Client } from 'pg'

/**
 * A copy of a database has no roles. Without those that the policies of the tables name, queries fail or, worse, find
 * nothing: every API key would be unknown.
 *
 * @throws StartError what the role of this connection lacks.
 */
export async function checkRole(client: Client): Promise<void> {
  const { rows } = await client.query<{ role: string; is_tenant: boolean | null; closed: string | null }>(
    `SELECT current_user AS role,
      (SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = 'platform_tenant') AS is_tenant,
      (SELECT min(c.relname) FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relrowsecurity
        AND NOT (has_table_privilege(c.oid, 'SELECT') AND ${hasPolicy('tenant', "r.rolname = 'platform_tenant'")}
          AND (NOT row_security_active(c.oid) OR ${hasPolicy('system', "pg_has_role(r.oid, 'USAGE')")}))) AS closed`,
  )
  const { role, is_tenant: isTenant, closed } = rows[0]!
  const advice = 'A copy is restored as the role that made the database, after platform_tenant was made.'
  if (!isTenant) throw new StartError(`DATABASE_URL: ${role} is not a member of the role platform_tenant. ${advice}`)
  if (closed !== null) {
    throw new StartError(`DATABASE_URL: the policies of the table ${closed} do not let ${role} in. ${advice}`)
  }
}

/** Part of the statement above: whether a table has the policy for such a role. */
const hasPolicy = (name: string, forRole: string): string =>
  `EXISTS (SELECT 1 FROM pg_policy p JOIN pg_roles r ON r.oid = ANY (p.polroles)
    WHERE p.polrelid = c.oid AND p.polname = '${name}' AND ${forRole})`
