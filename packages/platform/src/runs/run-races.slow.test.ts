import { AllowancePolicy, ServiceError } from '@bureau/protocol'
import { beforeAll, describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { checkInvariants } from '../db/invariants.contract.ts'
import { updateIntegration } from '../integrations/manage-integrations.ts'
import { adjustAllowance } from '../members/adjust-allowance.ts'
import { setAllowance, updateMember } from '../members/manage-members.ts'
import { answer, modelCall } from '../test-store.contract.ts'
import { useTenant, useTestStore } from '../use-test-store.contract.ts'
import { LostRuns } from './recover/take-up-lost-runs.ts'
import { recordOutcome } from './settle/record-outcome.ts'
import { recordStep } from '../run-records/record-step.ts'
import { requestCancel } from '../run-records/request-cancel.ts'

/**
 * What a request may be refused with in this mix, also for having waited too long on a machine under load. Anything
 * else, a deadlock (40P01) above all, is a defect.
 */
const EXPECTED = /^(run_active|consumer_\w+|database_unavailable (no free connection|55P03 .*))$/

const nameOf = (error: unknown): string =>
  error instanceof ServiceError ? [error.code, error.detail].filter(Boolean).join(' ') : String(error)

/** Small, seeded, good enough to shuffle a test. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

describe.each(ENGINES)('everything at once on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform, { memberAllowancesEnabled: true })
  beforeAll(async () => {
    for (const consumerId of ['a', 'b', 'c'])
      await tenant.addMember(consumerId, { messages: 150, maxConcurrentRuns: 8 })
  })

  test('48 workers admit, spend, cancel, kill, finish and change allowances: no deadlock, no invariant broken', async () => {
    const random = randomFrom(2_026)
    const consumers = ['a', 'b', 'c', 'follows']
    await tenant.addMember('follows')
    const refusals: string[] = []
    let ids = 0
    const finishing: Promise<unknown>[] = []
    const lost = new LostRuns({
      db: platform.db,
      onTaken: ({ ownerId, runId, bootId }) => {
        const nothing = { error: null, items: [], partial: null, calls: [], lastEventSeq: 0, eventChunk: null }
        const ending = { state: 'completed', ...nothing } as const
        finishing.push(platform.db.run(recordOutcome, { ownerId, runId, bootId, ending }))
      },
      onEnded: () => {},
      hasSuspect: () => false,
    })

    const live = async (worker: number): Promise<void> => {
      const consumerId = consumers[worker % 4]!
      const boot = random(6) === 0 ? await platform.addReplica() : platform.bootId
      const request = { consumerId, usageRequestId: `r-${ids++}`, aliasChatId: `room-${random(20)}` }
      const admission = await tenant.admit(request, { bootId: boot })
      const key = { ownerId: tenant.ownerId, runId: admission.run.runId }
      const progress = { ...key, bootId: boot, items: [answer('x')], calls: [modelCall(1)], version: 1, state: '{}' }
      await tenant.start(admission)
      const steps = [
        () => platform.db.run(recordStep, progress),
        () => platform.db.run(requestCancel, { ...key, mode: 'immediate' }),
        () =>
          platform.rows(
            `UPDATE replicas SET state = 'dead' WHERE boot_id = '${boot}' AND boot_id <> '${platform.bootId}'`,
          ),
        () => lost.takeUp(platform.bootId),
        () => tenant.finish(admission, { calls: [modelCall(2)], items: [answer('y')] }, boot),
        () => tenant.finish(admission, { state: 'failed', error: { code: 'upstream_timeout' } }, boot),
        () => tenant.finish(admission, { state: 'cancelled' }, boot),
      ]
      await Promise.all(steps.filter(() => random(3) > 0).map((step) => step()))
      await tenant.finish(admission, {}, boot)
    }
    const manage = async (worker: number): Promise<void> => {
      const { ownerId, integrationId } = tenant
      const key = { ownerId, integrationId, consumerId: consumers[worker % 4]!, actor: 'key' }
      const period = ['day', 'week', 'month', 'lifetime'][random(4)]
      const policy = AllowancePolicy.parse({ messages: 150, period, maxConcurrentRuns: 8 })
      const fingerprint = new Uint8Array(1)
      const adjustment = { kind: 'correction', tokens: random(50), note: 'n' } as const
      const steps = [
        () => platform.db.run(setAllowance, { ...key, policy }),
        () => platform.db.run(updateMember, { ...key, changes: { status: random(8) === 0 ? 'inactive' : 'active' } }),
        () => platform.db.run(updateIntegration, { ...key, changes: { defaultAllowance: policy } }),
        () => platform.db.run(adjustAllowance, { ...key, idempotencyKey: `k-${ids++}`, fingerprint, adjustment }),
      ]
      await steps[random(4)]!()
    }
    const work = async (worker: number): Promise<void> => {
      for (let round = 0; round < 12; round++) {
        const job = worker % 8 === 7 ? manage(worker) : live(worker)
        await job.catch((error: unknown) => {
          refusals.push(nameOf(error))
        })
      }
    }
    await Promise.all(Array.from({ length: 48 }, (_, worker) => work(worker)))
    await lost.takeUp(platform.bootId)
    await Promise.all(finishing)

    expect(refusals.filter((refusal) => !EXPECTED.test(refusal))).toEqual([])
    expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
    const [ended] = await platform.rows(`SELECT count(*)::int AS n, count(DISTINCT state)::int AS kinds FROM runs
      WHERE finished_at IS NOT NULL`)
    expect(Number(ended?.['n'])).toBeGreaterThan(100)
    expect(ended?.['kinds']).toBe(3)
  })
})
