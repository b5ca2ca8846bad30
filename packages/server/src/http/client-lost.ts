import type { FastifyReply } from 'fastify'

/** Whether the client has gone away: nobody would read an answer, so nothing must be spent on one. */
export function isClientLost(reply: FastifyReply): boolean {
  return reply.raw.destroyed
}

/** Calls `lost` once, when the client goes away before its answer is complete; at once when it has gone already. */
export function onClientLost(reply: FastifyReply, lost: () => void): void {
  if (isClientLost(reply)) return lost()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) lost()
  })
}
