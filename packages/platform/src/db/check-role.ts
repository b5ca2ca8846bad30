import { StartError } from '@bureau/protocol'
import { getTableName } from 'drizzle-orm'
import type { Client } from 'pg'
import * as schema from './schema.ts'

/** Others may have tables with policies in the same schema. */
const TABLES = Object.values(schema).map((table) => getTableName(table))

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
        AND c.relname = ANY ($1) AND NOT (has_table_privilege(c.oid, 'SELECT') AND ${hasPolicy('tenant', "r.rolname = 'platform_tenant'")}
          AND (NOT row_security_active(c.oid) OR ${hasPolicy('system', "pg_has_role(r.oid, 'USAGE')")}))) AS closed`,
    [TABLES],
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

/** Whether a platform has been here. */
export async function hasRecords(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ found: boolean }>(
    "SELECT to_regclass('schema_migrations') IS NOT NULL AS found",
  )
  return rows[0]!.found
}
