import type { Agency, FunctionTool } from '@bureau/framework'
import { RunToolAnswer, RunToolRequest, ServiceError } from '@bureau/protocol'
import { ok } from '@bureau/runtime'
import type { z } from 'zod'
import { listedTools, type ToolServers } from '../agencies/listed-tools.ts'
import { InvalidBody } from '../http/invalid-body.ts'
import { jsonRoute, named, type ServerRoute } from '../http/route.ts'
import { servedCall } from '../tools/tools.routes.ts'
import { describeThrown } from './shorten.ts'

type Parts = { readonly agencies: ReadonlyMap<string, Agency>; readonly toolServers: ToolServers }

/**
 * One tool of an agent by itself, for whoever develops it. A tool that needs an approval is carried out: who calls it by
 * hand has decided.
 */
export function runToolRoutes(parts: Parts): ServerRoute[] {
  return [
    jsonRoute(
      {
        ...named('run_tool'),
        method: 'POST',
        url: '/console/tools',
        tag: 'operation',
        body: RunToolRequest,
        success: { 200: RunToolAnswer },
        errors: ['tool_not_found'],
      },
      async ({ body }) => ok(await run(parts, body)),
    ),
  ]
}

async function run(parts: Parts, asked: z.output<typeof RunToolRequest>): Promise<RunToolAnswer> {
  const { agency, tool } = await requireTool(parts, asked)
  const began = performance.now()
  const took = (): number => Math.round(performance.now() - began)
  try {
    const output = await servedCall(tool)(asked.arguments, { ...agency.userContext, ...asked.user_context })
    return { output: output ?? null, failure: null, duration_ms: took() }
  } catch (error) {
    if (error instanceof InvalidBody) throw error
    return { output: null, failure: describeThrown(error), duration_ms: took() }
  }
}

/** @throws ServiceError `tool_not_found` */
async function requireTool(
  { agencies, toolServers }: Parts,
  { agency: name, agent, tool }: z.output<typeof RunToolRequest>,
): Promise<{ agency: Agency; tool: FunctionTool }> {
  const agency = agencies.get(name)
  const owner = agency?.agents.get(agent)
  const tools = agency && owner ? ((await listedTools(agency, toolServers)).get(owner) ?? []) : []
  const found = tools.find((each): each is FunctionTool => each.type === 'function' && each.name === tool)
  if (!agency || !found) throw new ServiceError('tool_not_found')
  return { agency, tool: found }
}
