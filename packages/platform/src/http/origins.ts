import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'

/** Lets browsers of these origins call, with their credentials. Others get no such headers. */
export async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return
  await app.register(cors, {
    origin: [...origins],
    credentials: true,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    maxAge: 600,
    optionsSuccessStatus: 200,
    exposedHeaders: [
      'ETag',
      'Idempotent-Replayed',
      'RateLimit',
      'RateLimit-Policy',
      'Retry-After',
      'Upload-Offset',
      'X-Agent-Active-Run-Id',
      'X-Agent-Run-Admitted',
      'X-Agent-Run-Id',
      'X-Agent-Run-Replayed',
      'X-Chat-Id',
      'X-Request-Id',
    ],
  })
}
