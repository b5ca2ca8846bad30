import { ServiceError } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import type { CuttingProxy } from '../faults/cutting-proxy.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { ENGINES, type Served, servePlatform, startPlatform } from './support/test-platform.ts'

const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** A platform whose way to PostgreSQL can be closed. */
async function startGated(): Promise<{ platform: Served; gate: CuttingProxy }> {
  const direct = await startPlatform('postgres')
  const gate = await startCuttingProxy(direct.shared.databaseUrl)
  const platform = await startPlatform('postgres', { beside: { ...direct.shared, databaseUrl: gate.url } })
  closeAfterTest(async () => {
    gate.open()
    await platform.close()
    await direct.close()
  })
  return { platform, gate }
}

describe.skipIf(!ENGINES.includes('postgres'))('while PostgreSQL is away', () => {
  test('a stream goes on, its end waits, new requests are refused with nothing reserved; then all is well', async () => {
    const { platform, gate } = await startGated()
    const client = await platform.client()
    const [early, late] = [platform.provider.gate(), platform.provider.gate()]
    platform.provider.script([textDeltas(['One ', hold(early), 'two ', hold(late), 'three.'])])
    const stream = await client.complete()
    await stream.untilText('One')

    gate.shut()
    early.release()
    await stream.untilText('two')
    const refused = await client.completeWhole()
    const ready = await fetch(`${platform.url}/readyz`)
    late.release()
    await stream.untilText('three.')

    expect(refused.status).toBe(503)
    expect(refused.body.code).toBe('database_unavailable')
    expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
    expect(refused.headers.has('retry-after')).toBe(true)
    expect(ready.status).toBe(503)
    expect(stream.frames.some(({ event }) => event === 'messages')).toBe(false)
    gate.open()
    await stream.all()
    expect(stream.result.status).toBe('completed')
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.status).toBe('completed')
    expect((await fetch(`${platform.url}/readyz`)).status).toBe(200)
    expect(await platform.violations()).toEqual([])
  })
})

describe.each(ENGINES)('a database on %s that is away for a moment', (engine) => {
  const away = { operation: '', times: 0 }
  const intercept = (operation: string): Error | undefined =>
    operation === away.operation && away.times-- > 0 ? new ServiceError('database_unavailable') : undefined
  const platform = servePlatform(engine, { intercept })

  test.each(['noteAttachments', 'recordRunProgress', 'recordOutcome'])(
    'at %s does not fail a run',
    async (operation) => {
      const client = await platform.client()
      platform.provider.respond(() => text('A pixel.'))
      Object.assign(away, { operation, times: 2 })

      const { stream } = await client.completeWhole({ attachments: [{ type: 'input_image', image_url: PIXEL }] })

      expect(stream.result.status).toBe('completed')
      expect(stream.spoken).toBe('A pixel.')
      expect(await platform.violations()).toEqual([])
    },
  )
})
