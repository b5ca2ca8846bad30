import { type ErrorCode, ERRORS } from '@bureau/protocol'
import type { z } from 'zod'
import { ApiSchemas, type OpenApiVersion } from './api-schemas.ts'
import type { RouteSpec, SuccessBody, TextBody } from './route.ts'

type Json = Record<string, unknown>

/** How the description of one app looks. */
export type ApiStyle<Row extends RouteSpec> = {
  readonly version: OpenApiVersion
  /** The one way in which callers identify themselves: its name and its security scheme. */
  readonly security: readonly [name: string, scheme: object]
  /** False: the route is open to everybody. */
  readonly isGuarded: (route: Row) => boolean
  /** Refusals that the row does not name, because all routes of its kind have them. */
  readonly commonErrors: (route: Row) => readonly ErrorCode[]
  /** The status of a refusal. Default: that of its code everywhere. */
  readonly statusOf?: (code: ErrorCode, route: Row) => number
  /** The schema of a refusal with this status. */
  readonly errorBody: (route: Row, status: number) => z.ZodType
  /** More of the response object of refusals with one status: examples, headers. */
  readonly more?: (route: Row, status: number, codes: readonly ErrorCode[]) => { examples?: Json; headers?: Json }
  /** Named schemas that are in the document in any case. */
  readonly schemas?: readonly z.ZodType[]
  readonly description?: (route: Row) => string | undefined
  /** Headers that the row does not name. */
  readonly headers?: (route: Row) => Readonly<Record<string, string>>
  /** Where a route is served, if not where all are. */
  readonly servers?: (route: Row) => readonly object[] | undefined
}

export type ApiInfo = { readonly title: string; readonly version: string; readonly description?: string }

/** The OpenAPI document of an app, made from the rows that serve its requests. */
export function apiDocument<Row extends RouteSpec>(
  routes: readonly Row[],
  style: ApiStyle<Row>,
  { info, url }: { readonly info: ApiInfo; readonly url?: string },
): Json {
  const writer = new OperationWriter(style)
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const path = route.url.replaceAll(PARAMETER, (_, name?: string) => (name === undefined ? ':' : `{${name}}`))
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: writer.operation(route) }
  }
  const [name, scheme] = style.security
  return {
    openapi: style.version,
    info,
    ...(url !== undefined && { servers: [{ url }] }),
    tags: [...new Set(routes.map(({ tag }) => tag))].map((tag) => ({ name: tag })),
    paths,
    components: { schemas: writer.schemas.components, securitySchemes: { [name]: scheme } },
  }
}

class OperationWriter<Row extends RouteSpec> {
  readonly schemas: ApiSchemas
  readonly #style: ApiStyle<Row>

  constructor(style: ApiStyle<Row>) {
    this.#style = style
    this.schemas = new ApiSchemas(style.version)
    for (const schema of style.schemas ?? []) this.schemas.of(schema)
  }

  operation(route: Row): Json {
    const style = this.#style
    const description = style.description ? style.description(route) : route.description
    const parameters = [...pathParameters(route), ...this.#queryParameters(route), ...this.#headerParameters(route)]
    const body = route.rawBody && !route.bodyOptional ? RAW_BODY : this.#requestBody(route)
    const servers = style.servers?.(route)
    return {
      operationId: route.id,
      tags: [route.tag],
      summary: route.summary,
      ...(description && { description }),
      security: style.isGuarded(route) ? [{ [style.security[0]]: [] }] : [],
      ...(parameters.length > 0 && { parameters }),
      ...(body && { requestBody: body }),
      responses: { ...this.#failures(route), ...this.#successes(route), ...this.#others(route) },
      ...(servers && { servers }),
    }
  }

  #requestBody({ body, ownBody, bodyOptional, examples }: Row): Json | undefined {
    const described = body ?? ownBody
    if (!described) return undefined
    const schema = 'jsonSchema' in described ? this.schemas.add(described) : this.schemas.of(described)
    return { required: !bodyOptional, content: json(schema, examples?.request) }
  }

  #queryParameters({ query, ownQuery = query }: Row): Json[] {
    if (!ownQuery) return []
    const { properties = {}, required = [] } = this.schemas.of(ownQuery) as {
      properties?: Record<string, Json>
      required?: string[]
    }
    return Object.entries(properties).map(([name, { description, ...schema }]) => ({
      name,
      in: 'query',
      required: required.includes(name),
      ...(description !== undefined && { description }),
      schema,
    }))
  }

  #headerParameters(route: Row): Json[] {
    return Object.entries({ ...route.headers, ...this.#style.headers?.(route) }).map(([name, description]) => ({
      name,
      in: 'header',
      required: description === 'Required.',
      description,
      schema: text,
    }))
  }

  #successes(route: Row): Json {
    const answers = Object.entries(route.success).map(([status, body]) => [
      status,
      { description: descriptionOf(status, body), ...this.#contentOf(route, body) },
    ])
    return Object.fromEntries(answers) as Json
  }

  #others({ otherResponses = {} }: Row): Json {
    const answers = Object.entries(otherResponses).map(([status, { description, body }]) => [
      status,
      { description, ...(body && { content: json(this.schemas.of(body)) }) },
    ])
    return Object.fromEntries(answers) as Json
  }

  #contentOf({ examples }: Row, body: SuccessBody): Json {
    if (body === null) return {}
    if (isText(body)) {
      return { ...(body.headers && { headers: headersOf(body.headers) }), content: this.#textContent(body) }
    }
    return { content: json(this.schemas.of(body), examples?.response) }
  }

  #textContent({ contentType, otherContentType, json: schema, example }: TextBody): Json {
    return {
      [contentType]: { schema: text, ...(example !== undefined && { example }) },
      ...(otherContentType !== undefined && { [otherContentType]: { schema: text } }),
      ...(schema && json(this.schemas.of(schema))),
    }
  }

  #failures(route: Row): Json {
    const { commonErrors, errorBody, more, statusOf = (code: ErrorCode) => ERRORS[code].status } = this.#style
    const byStatus = Map.groupBy(new Set([...route.errors, ...commonErrors(route)]), (code) => statusOf(code, route))
    const answers = [...byStatus].map(([status, codes]) => {
      const { examples, ...rest } = more?.(route, status, codes) ?? {}
      const schema = this.schemas.of(route.errorBody ?? errorBody(route, status))
      const description = codes.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join(' ')
      return [
        String(status),
        { description, ...rest, content: { 'application/json': { schema, ...(examples && { examples }) } } },
      ]
    })
    return Object.fromEntries(answers) as Json
  }
}

const text = { type: 'string' }

const isText = (body: z.ZodType | TextBody): body is TextBody => 'contentType' in body

function json(schema: object, example?: unknown): Json {
  return { 'application/json': { schema, ...(example !== undefined && { example }) } }
}

/** Any type is taken; the parts of an upload name the second one. */
const RAW_BODY = {
  required: true,
  content: Object.fromEntries(
    ['application/octet-stream', 'application/offset+octet-stream'].map((type) => [
      type,
      { schema: { type: 'string', format: 'binary' } },
    ]),
  ),
}

/** Two colons stand for one. */
const PARAMETER = /::|:(\w+)/g

function pathParameters({ url }: RouteSpec): Json[] {
  const names = [...url.matchAll(PARAMETER)].flatMap(([, name]) => name ?? [])
  return names.map((name) => ({ name, in: 'path', required: true, schema: text }))
}

function descriptionOf(status: string, body: SuccessBody): string {
  if (body && isText(body)) return body.description
  return DESCRIPTIONS[status] ?? 'Successful Response'
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  101: 'Switching Protocols',
  201: 'Created',
  202: 'Accepted',
  204: 'Done; there is no body.',
  302: 'Go on at `Location`.',
  503: 'Not ready',
}

export function headersOf(headers: Readonly<Record<string, string>>): Json {
  const described = Object.entries(headers).map(([name, description]) => [name, { description, schema: text }])
  return Object.fromEntries(described) as Json
}
