import type { FaceAgency } from '@bureau/faces'
import type { ServerContext } from '../context.ts'
import { agencyMetadata } from '../agencies/agency-metadata.ts'
import { jsonRoute, named, type ServerRoute } from '../http/route.ts'
import { AgencyMetadata } from '@bureau/protocol'
import { ok } from '@bureau/runtime'

/** An agency as it is served. Where it signs in, requests must come from a user, to whom its sign-ins belong. */
export type ServedAgency = FaceAgency & { readonly context: ServerContext }

/** A protocol for runs: the routes of one agency that speak it. A folder each, beside this file. */
export type Face = (served: ServedAgency) => readonly ServerRoute[]

/** `GET /<agency>/get_metadata`: clients find the agencies by the paths that end in it. */
export function metadataRoute({ name, agency, context }: ServedAgency): ServerRoute {
  const spec = {
    ...named(`handler_${name}_get_metadata_get`),
    method: 'GET',
    url: `/${name}/get_metadata`,
    tag: name,
    success: { 200: AgencyMetadata },
    errors: [],
  } as const
  return jsonRoute(spec, async () => ok(await agencyMetadata(agency, context.metadataOptions)))
}
