import { titleOf } from '@bureau/framework'
import { ok, param, type Route, routesOf } from '@bureau/runtime'
import { z } from 'zod'
import type { FaceAgency, FaceHost } from '../face-host.ts'
import { API_ROW, ApiErrorBody } from './api-error.ts'
import { modelIdsOf, selectAgent } from './select-agent.ts'

const { jsonRoute } = routesOf<object>()

const Model = z
  .object({
    id: z.string().describe('An agency, or agency/agent.'),
    object: z.literal('model'),
    created: z.int().describe('Seconds since the epoch.'),
    owned_by: z.string(),
    name: z.string(),
    description: z.string(),
  })
  .meta({ id: 'OpenAIModel' })
type Model = z.output<typeof Model>

const ModelList = z.object({ object: z.literal('list'), data: z.array(Model) })

const COMMON = { ...API_ROW, method: 'GET', errors: [] } as const

/** `GET /openai/v1/models`: clients let their users choose from it. An id with a slash may come encoded or as two segments. */
export function modelRoutes(host: FaceHost): readonly Route<object>[] {
  const NOT_FOUND = { otherResponses: { 404: { description: 'There is no such model.', body: ApiErrorBody } } }
  return [
    jsonRoute(
      {
        ...COMMON,
        url: '/openai/v1/models',
        id: 'openai_list_models',
        summary: 'The agencies, as models',
        success: { 200: ModelList },
      },
      async ({ request }) => {
        const agencies = await host.agencies(request)
        const data = agencies.flatMap((served) => modelIdsOf(served).map((id) => modelOf(served, id)))
        return ok({ object: 'list' as const, data })
      },
    ),
    ...['/openai/v1/models/:agency', '/openai/v1/models/:agency/:agent'].map((url, index) =>
      jsonRoute(
        {
          ...COMMON,
          ...NOT_FOUND,
          url,
          id: `openai_get_model${index === 0 ? '' : '_agent'}`,
          summary: index === 0 ? 'One agency, as a model' : 'One agent of an agency, as a model',
          success: { 200: Model },
        },
        async (call) => {
          const id = index === 0 ? param(call, 'agency') : `${param(call, 'agency')}/${param(call, 'agent')}`
          const { served, model } = await selectAgent(host, call.request, id)
          return ok(modelOf(served, model))
        },
      ),
    ),
  ]
}

function modelOf({ name, agency, createdAt }: FaceAgency, id: string): Model {
  const agent = agency.agents.get(id.slice(name.length + 1)) ?? agency.entryPoint
  const title = titleOf(agency, name)
  return {
    id,
    object: 'model',
    created: createdAt,
    owned_by: 'bureau',
    name: id === name ? title : `${title}: ${agent.name}`,
    description: agent.description,
  }
}
