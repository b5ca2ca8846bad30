import type { FastifyRequest } from 'fastify'
import type { FaceAgency, FaceHost } from '../face-host.ts'
import { ApiError, invalidParam } from './api-error.ts'

/** Whom a request addresses. */
export type Target = {
  readonly served: FaceAgency
  /** One of the agency's agents. */
  readonly agent: string
  /** As the caller has named it. */
  readonly model: string
}

const MAX_LISTED = 20

/**
 * Finds what `model` names: an agency, or `agency/agent`. Without a name the only agency is meant.
 *
 * @throws ApiError 404 `model_not_found`; 400 when there is no name and several agencies.
 */
export async function selectAgent(host: FaceHost, request: FastifyRequest, model: string | null): Promise<Target> {
  if (model === null) return onlyAgency(await host.agencies(request))
  const slash = model.indexOf('/')
  const served = await host.agency(request, slash < 0 ? model : model.slice(0, slash))
  const agent = slash < 0 ? served && defaultAgentOf(served) : model.slice(slash + 1)
  if (served && agent !== undefined && served.agency.agents.has(agent)) return { served, agent, model }
  const known = (await host.agencies(request)).map(({ name }) => name)
  const shown = known.slice(0, MAX_LISTED).join(', ') + (known.length > MAX_LISTED ? ', …' : '')
  const there = served ? [...served.agency.agents.keys()].map((name) => `${served.name}/${name}`).join(', ') : shown
  throw new ApiError(`The model ${quoted(model)} does not exist. There are: ${there || 'none'}.`, {
    status: 404,
    code: 'model_not_found',
    param: 'model',
  })
}

function onlyAgency(agencies: readonly FaceAgency[]): Target {
  const [served, ...others] = agencies
  if (!served || others.length > 0) throw invalidParam('model', 'name an agency, or agency/agent', 'missing')
  return { served, agent: defaultAgentOf(served), model: served.name }
}

const defaultAgentOf = ({ defaultAgent, agency }: FaceAgency): string => defaultAgent ?? agency.entryPoint.name

const quoted = (text: string): string => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)

/** The names under which an agency can be addressed: its own and, where there are several entry points, theirs. */
export function modelIdsOf({ name, agency }: FaceAgency): string[] {
  const { entryPoints } = agency
  return [name, ...(entryPoints.length > 1 ? entryPoints.map((agent) => `${name}/${agent.name}`) : [])]
}
