import type { AgencyMetadata, RecentRun } from '@bureau/protocol'
import { HINTS } from '../server/hints.ts'
import type { Routes, ServerFacts } from '../server/queries.ts'
import { reasonOf } from '../server/reason.ts'
import { ask } from '../server/request.ts'
import { counted } from '../ui/format.ts'

type Finding = { readonly state: 'good' | 'warn' | 'bad'; readonly what: string; readonly fix?: string }

const DEMO_MODEL = 'demo'

/** Looks at everything that can be seen from here. What is not well comes with what to do about it. */
export async function examine(facts: ServerFacts, routes: Routes | undefined): Promise<readonly Finding[]> {
  const agencies = await Promise.all((routes?.agencies ?? []).map(examineAgency))
  return [
    ...examineDoor(facts, routes),
    ...agencies.flat(),
    ...(routes?.hasRuns ? await examineRuns() : []),
    ...(facts.platform ? await examinePlatform() : []),
  ]
}

function examineDoor({ agencies, version }: ServerFacts, routes: Routes | undefined): Finding[] {
  const findings: Finding[] = [{ state: 'good', what: `The server answers. It is Bureau ${version}.` }]
  if (agencies === 'open') {
    const fix = 'Fine on your own machine. Set APP_TOKEN before anybody else can reach it.'
    findings.push({ state: 'warn', what: 'The server needs no token, and answers this machine only.', fix })
  }
  if (agencies === 'token' && !routes) {
    findings.push({
      state: 'bad',
      what: 'Nobody is signed in to the server.',
      fix: 'Open the playground, and sign in with its token.',
    })
  }
  if (routes && !routes.hasRuns) {
    const fix = 'Set keepRecentRuns, or BUREAU_KEEP_RECENT_RUNS=true, to see the latest ones here.'
    findings.push({ state: 'warn', what: 'The server keeps no runs.', fix })
  }
  return findings
}

async function examineAgency(name: string): Promise<Finding[]> {
  try {
    const { nodes, edges } = await ask<AgencyMetadata>('server', `${encodeURIComponent(name)}/get_metadata`)
    const agents = nodes.flatMap((node) => (node.type === 'agent' ? [node] : []))
    const reached = new Set(edges.filter(({ type }) => type === 'communication').map(({ target }) => target))
    const models = [...new Set(agents.map(({ data }) => data.model))].join(', ')
    const count = counted(agents.length, 'agent')
    const findings: Finding[] = [{ state: 'good', what: `Agency ${name}: ${count} on ${models}.` }]
    if (agents.some(({ data }) => data.model === DEMO_MODEL)) {
      const fix =
        'It follows simple rules and understands nothing. Set OPENAI_API_KEY or OPENAI_BASE_URL for a real one.'
      findings.push({ state: 'warn', what: `Agency ${name} works with the built-in demo model.`, fix })
    }
    for (const { id, data } of agents) {
      if (!reached.has(id) || data.description !== '') continue
      const fix = 'Other agents read it to find out whom to ask.'
      findings.push({ state: 'warn', what: `Agent ${data.label} of ${name} has no description.`, fix })
    }
    return findings
  } catch (error) {
    return [{ state: 'bad', what: `Agency ${name} cannot be read: ${reasonOf(error)}` }]
  }
}

/** The failures of the latest runs, by their codes. */
async function examineRuns(): Promise<Finding[]> {
  const { runs } = await ask<{ runs: RecentRun[] }>('server', 'console/runs?status=failed')
  const codes = Map.groupBy(runs, ({ error }) => error?.code ?? 'run_failed')
  if (codes.size === 0) return [{ state: 'good', what: 'None of the latest runs has failed.' }]
  return [...codes].map(([code, failed]) => ({
    state: 'bad' as const,
    what: `${failed.length === 1 ? 'One of the latest runs' : `${failed.length} of the latest runs`} failed: ${failed[0]?.error?.message ?? code}`,
    ...(HINTS[code] && { fix: HINTS[code] }),
  }))
}

async function examinePlatform(): Promise<Finding[]> {
  try {
    await ask('platform', 'readyz')
    return [{ state: 'good', what: 'The platform is ready for requests.' }]
  } catch (error) {
    return [
      {
        state: 'bad',
        what: `The platform is not ready: ${reasonOf(error)}`,
        fix: 'Its log says more. Often the database cannot be reached.',
      },
    ]
  }
}
