import { AgencyMetadata } from '@bureau/protocol'
import { ok } from '@bureau/runtime'
import type { ServedAgency } from './face.ts'
import { jsonRoute, named, type ServerRoute } from '../http/route.ts'
import { agencyMetadata } from '../agencies/agency-metadata.ts'

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
