import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import type { Callers } from './callers.ts'

/** Lets pages of these origins call. Comes before anything else, so that refusals and failures carry the headers too. */
export async function allowOrigins(app: FastifyInstance, origins: Callers['origins']): Promise<void> {
  const any = origins.includes('*')
  const areListed = origins.every((origin) => typeof origin === 'string')
  await app.register(cors, {
    origin: any ? '*' : [...origins],
    credentials: areListed && !any,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    maxAge: 600,
    // OPTIONS requests that ask for nothing are answered like the others, not with a text of the library's.
    strictPreflight: false,
    optionsSuccessStatus: 200,
    exposedHeaders: ['x-request-id'],
  })
}
