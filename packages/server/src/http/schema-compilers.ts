import { createRequire } from 'node:module'
import type { FastifyServerOptions } from 'fastify'

type Compilers = NonNullable<NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']>

/** Takes and gives what Fastify and its compilers agree on between themselves. */
type Build = (...options: unknown[]) => never

const load = createRequire(import.meta.url)

/**
 * Fastify's own compilers of JSON Schemas, loaded with the first route that has one. Routes of this server have none,
 * because they are checked with zod; those that a program adds to its app may.
 */
export const schemaCompilers: Compilers = {
  buildValidator: (...options: unknown[]) => buildOf('@fastify/ajv-compiler')(...options),
  buildSerializer: (...options: unknown[]) => buildOf('@fastify/fast-json-stringify-compiler')(...options),
}

function buildOf(compiler: string): Build {
  // They are Fastify's dependencies and not ours, so they are looked up from its place.
  const loadForFastify = createRequire(load.resolve('fastify'))
  const { default: select } = loadForFastify(compiler) as { default: () => Build }
  return select()
}
