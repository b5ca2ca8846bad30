import type { Launched } from '../launch.ts'

/** What load is made with: one owner, an integration without allowances and one with them. */
export type Tenant = {
  readonly port: number
  readonly token: string
  readonly integrations: { readonly plain: string; readonly withAllowances: string }
}

/** Far more than any measurement uses: what counts is that every run is counted. */
const ALLOWANCE = { messages: 1_000_000_000, tokens: 1_000_000_000_000, maxConcurrentRuns: 1_000 }

export const consumerOf = (connection: number): string => `consumer-${connection}`

/** Makes what load needs, over HTTP, with one member for each connection of the load. */
export async function openTenant(launched: Launched, connections: number): Promise<Tenant> {
  const { apiKey, apiIntegrationId } = (await launched.ask('credentials')) as Record<string, string>
  const { port } = launched
  const token = apiKey ?? ''
  const post = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(10_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`POST ${path} answered ${response.status}: ${text}`)
    return JSON.parse(text) as Record<string, unknown>
  }
  const settings = { name: 'With allowances', agencyId: 'demo', memberAllowancesEnabled: true }
  const { apiIntegrationId: withAllowances } = await post('/v1/integrations', settings)
  for (let connection = 0; connection < connections; connection++) {
    const member = { consumerId: consumerOf(connection), allowance: ALLOWANCE }
    await post(`/v1/integrations/${String(withAllowances)}/members`, member)
  }
  return { port, token, integrations: { plain: apiIntegrationId ?? '', withAllowances: String(withAllowances) } }
}
