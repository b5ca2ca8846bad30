import { FACE_HEADERS } from '@bureau/faces'
import cors, { type FastifyCorsOptions } from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Platform } from '../context.ts'

const SETTINGS = {
  methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
  maxAge: 600,
  optionsSuccessStatus: 200,
  exposedHeaders: [
    ...FACE_HEADERS,
    'ETag',
    'Idempotent-Replayed',
    'RateLimit',
    'RateLimit-Policy',
    'Upload-Offset',
    'X-Agent-Active-Run-Events',
    'X-Agent-Active-Run-Id',
    'X-Agent-Run-Admitted',
    'X-Agent-Run-Id',
    'X-Agent-Run-Replayed',
    'X-Chat-Id',
  ],
}

/**
 * Lets browsers of the configured origins call, with their credentials, and those of the origins that integrations list, without:
 * their pages have consumer tokens. Others get no such headers.
 */
export async function allowOrigins(app: FastifyInstance, { config, store }: Platform): Promise<void> {
  const own = new Set(config.corsOrigins)
  const settingsOf = async ({ headers }: FastifyRequest): Promise<FastifyCorsOptions> => {
    const { origin } = headers
    // Any other OPTIONS is a request as all are.
    const preflight = origin !== undefined && headers['access-control-request-method'] !== undefined
    const settings = { ...SETTINGS, preflight }
    if (origin === undefined || own.has(origin))
      return { ...settings, origin: [...config.corsOrigins], credentials: true }
    const isListed = await store.consumers.isListed(origin)
    return { ...settings, origin: isListed && origin, credentials: false }
  }
  await app.register(cors, { delegator: settingsOf })
}
