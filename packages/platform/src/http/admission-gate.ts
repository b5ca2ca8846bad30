import { ServiceError } from '@bureau/protocol'
import type { FastifyInstance } from 'fastify'
import type { Platform } from '../context.ts'
import { overloaded } from './overload.ts'

/** Refuses new runs while this process cannot take one: before anything of the request is looked at. */
export function refuseWhenFull(app: FastifyInstance, platform: Platform): void {
  app.addHook('onRequest', async (request) => {
    if ((request.routeOptions.config as { admits?: boolean } | undefined)?.admits) requireRoom(platform)
  })
}

/** @throws ServiceError `server_draining`, `overloaded`: this process cannot take another run. */
export function requireRoom({ executor, config, overload }: Platform): void {
  if (executor.draining) throw new ServiceError('server_draining', { headers: { Connection: 'close' } })
  if (executor.size >= config.maxActiveRuns) throw overloaded()
  overload.check()
}
