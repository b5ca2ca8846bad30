import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'
import { lifeOfToken } from './token-life.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const caller: Caller = {
  ownerId: 'own_1',
  keyId: 'ct_1',
  scopes: ['runs'],
  integrationIds: ['int_1'],
  consumerId: 'u',
  expiresAt: new Date(Date.now() + 60_000),
}

test('the token of a client that has left already is not looked at', () => {
  const raw = new ServerResponse(new IncomingMessage(new Socket()))
  raw.destroy()

  lifeOfToken({} as Platform, { caller, request: { headers: {} } as FastifyRequest }, { raw } as FastifyReply)

  expect(vi.getTimerCount()).toBe(0)
})
