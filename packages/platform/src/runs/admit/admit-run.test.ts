import { ServiceError } from '@bureau/protocol'
import { beforeAll, describe, expect, test } from 'vitest'
import { createChat } from '../../chats/manage-chats.ts'
import { ENGINES } from '../../db/engines.contract.ts'
import { updateIntegration } from '../../integrations/manage-integrations.ts'
import type { TestTenant } from '../../test-store.contract.ts'
import { useTenant, useTestStore } from '../../use-test-store.contract.ts'

const codeOf = (error: unknown): string => (error instanceof ServiceError ? error.code : String(error))
const codesOf = (answers: PromiseSettledResult<{ outcome: string }>[]): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(answers, (one) => (one.status === 'fulfilled' ? one.value.outcome : codeOf(one.reason)))].map(
      ([code, group]) => [code, group.length],
    ),
  )
const times = <Value>(count: number, make: (index: number) => Promise<Value>) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => persist(() => make(index))))

/** A machine under load refuses with 503 what waited too long. Nothing was reserved, so the caller asks again. */
async function persist<Value>(ask: () => Promise<Value>): Promise<Value> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (codeOf(error) !== 'database_unavailable') throw error
    }
  }
}

describe.each(ENGINES)('admission on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform)

  const refusal = (request: Parameters<TestTenant['admit']>[0], from = tenant): Promise<unknown> =>
    from.admit(request).then(
      (admission) => admission.outcome,
      (error: unknown) => error,
    )

  test('makes a run in a new chat, stores the message and says what the run begins with', async () => {
    const admission = await tenant.admit({ message: 'Hi', userContext: { plan: 'secret-canary' } })
    expect(admission).toMatchObject({
      outcome: 'admitted',
      textOnly: false,
      run: { status: 'running', agent: 'CEO', usage: null, lastEventId: '0' },
      settings: { agencyId: 'shop', maxTurns: 50 },
      context: {
        userContext: { plan: 'secret-canary' },
        recorded: null,
        history: [{ seq: 1, role: 'user', item: { content: [{ type: 'input_text', text: 'Hi' }] } }],
      },
    })
    const stored = await platform.rows(`SELECT seq, role, item FROM messages WHERE run_id = '${admission.run.runId}'`)
    expect(stored).toMatchObject([{ role: 'user', item: { content: [{ type: 'input_text', text: 'Hi' }] } }])
    const [row] = await platform.rows(
      `SELECT encode(context_enc, 'escape') AS c FROM runs WHERE id = '${admission.run.runId}'`,
    )
    expect(row?.['c']).not.toContain('secret-canary')
  })

  test('refuses a chat with an active run and names that run', async () => {
    const { run } = await tenant.admit()
    expect(await refusal({ chatId: run.chatId })).toMatchObject({
      code: 'run_active',
      headers: { 'X-Agent-Active-Run-Id': run.runId, 'Retry-After': '2' },
    })
  })

  test('admits the next run of a chat once the previous one has ended', async () => {
    const first = await tenant.admit()
    expect(await tenant.start(first)).toBe('started')
    expect(await tenant.finish(first)).toBe('settled')
    expect(await tenant.admit({ chatId: first.run.chatId })).toMatchObject({ outcome: 'admitted' })
  })

  test.each([
    {
      what: 'an integration that is not there',
      request: { apiIntegrationId: 'int_none' },
      code: 'integration_not_found',
    },
    { what: 'a chat that is not there', request: { chatId: 'chat_none' }, code: 'chat_not_found' },
    { what: 'an agent that is no entry point', request: { agent: 'Janitor' }, code: 'invalid_agent' },
  ])('refuses $what', async ({ request, code }) => {
    expect(await refusal(request)).toMatchObject({ code })
  })

  test('refuses another owner and a key that is restricted to other integrations', async () => {
    const stranger = await platform.addTenant()
    expect(await refusal({ apiIntegrationId: tenant.integrationId }, stranger)).toMatchObject({
      code: 'integration_forbidden',
    })
    const { run } = await tenant.admit()
    expect(await refusal({ chatId: run.chatId }, stranger)).toMatchObject({ code: 'chat_not_found' })
  })

  test('refuses an integration that is switched off, but still answers a retry of what it admitted', async () => {
    const owner = await platform.addTenant()
    await owner.admit({ usageRequestId: 'before' })
    const { ownerId, integrationId } = owner
    await platform.db.run(updateIntegration, { ownerId, integrationId, actor: 'key', changes: { status: 'disabled' } })
    expect(await refusal({}, owner)).toMatchObject({ code: 'integration_disabled' })
    expect(await refusal({ usageRequestId: 'before' }, owner)).toBe('replayed')
  })

  test('refuses a process that is not live', async () => {
    const error = await tenant.admit({}, { bootId: 'boot_unknown' }).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'server_draining', status: 503 })
  })

  test('a refused request leaves no chat, message or period behind', async () => {
    const owner = await platform.addTenant()
    await owner.admit({ aliasChatId: 'only' })
    const answers = await times(20, () => owner.admit({ aliasChatId: 'only' }))
    expect(codesOf(answers)).toEqual({ run_active: 20 })
    const [count] = await platform.rows(`SELECT count(*)::int AS n FROM chats WHERE owner_id = '${owner.ownerId}'`)
    expect(count).toEqual({ n: 1 })
  })

  describe('chats', () => {
    test('an alias names one chat; binding it to a second one is refused', async () => {
      const first = await tenant.admit({ aliasChatId: 'room-1' })
      await tenant.finish(first)
      const again = await tenant.admit({ aliasChatId: 'room-1' })
      expect(again.run.chatId).toBe(first.run.chatId)
      await tenant.finish(again)
      const other = await tenant.admit()
      await tenant.finish(other)
      expect(await refusal({ chatId: other.run.chatId, aliasChatId: 'room-1' })).toMatchObject({
        code: 'chat_alias_conflict',
      })
      expect(await refusal({ chatId: other.run.chatId, aliasChatId: 'room-2' })).toBe('admitted')
      expect(await refusal({ chatId: other.run.chatId, aliasChatId: 'room-3' })).toMatchObject({
        code: 'chat_alias_conflict',
      })
    })

    test('a chat that is bound to its consumer does not exist for others', async () => {
      const owner = await platform.addTenant({ chatBinding: 'consumer' })
      const { run } = await owner.admit({ consumerId: 'ada' })
      expect(await refusal({ chatId: run.chatId, consumerId: 'bob' }, owner)).toMatchObject({ code: 'chat_not_found' })

      const { ownerId, integrationId } = owner
      const { chatId } = await platform.db.run(createChat, { ownerId, integrationId })
      await owner.finish(await owner.admit({ chatId, consumerId: 'bob' }))
      expect(await refusal({ chatId, consumerId: 'ada' }, owner)).toMatchObject({ code: 'chat_not_found' })
    })
  })

  describe('usageRequestId', () => {
    test('the same request is answered with the same run, also after it ended', async () => {
      const first = await tenant.admit({ usageRequestId: 'r-1' })
      const again = await tenant.admit({ usageRequestId: 'r-1' })
      expect(again).toMatchObject({ outcome: 'replayed', run: { runId: first.run.runId } })
      await tenant.finish(first, { state: 'failed', error: { code: 'internal_error' } })
      expect(await tenant.admit({ usageRequestId: 'r-1' })).toMatchObject({
        outcome: 'replayed',
        run: { runId: first.run.runId, status: 'failed', error: { code: 'internal_error', retryable: true } },
      })
    })

    test('another request under the same id is refused', async () => {
      await tenant.admit({ usageRequestId: 'r-2', message: 'one' })
      expect(await refusal({ usageRequestId: 'r-2', message: 'two' })).toMatchObject({
        code: 'usage_request_id_reused',
        status: 422,
      })
    })

    test('a newly signed URL does not make it another request', async () => {
      const file = (query: string) => ({
        usageRequestId: 'r-3',
        attachments: [
          {
            kind: 'input_file' as const,
            filename: 'r.pdf',
            detail: null,
            source: { url: `https://files.example.com/r.pdf?${query}` },
          },
        ],
      })
      await tenant.admit(file('sig=1'))
      expect(await tenant.admit(file('sig=2'))).toMatchObject({ outcome: 'replayed' })
    })
  })

  describe('allowances', () => {
    let owner: TestTenant
    beforeAll(async () => {
      owner = await platform.addTenant({ memberAllowancesEnabled: true })
    })

    test('need consumer and request id, and a registered member', async () => {
      expect(await refusal({ usageRequestId: 'a' }, owner)).toMatchObject({ code: 'allowance_attribution_required' })
      expect(await refusal({ consumerId: 'a' }, owner)).toMatchObject({ code: 'allowance_attribution_required' })
      expect(await refusal({ consumerId: 'nobody', usageRequestId: 'a' }, owner)).toMatchObject({
        code: 'member_not_found',
      })
    })

    test('admit up to the limit of messages and say how much is left', async () => {
      await owner.addMember('two', { messages: 2, period: 'month' })
      const first = await owner.admit({ consumerId: 'two', usageRequestId: 'two-1' })
      expect(first.messageLimit).toMatchObject({ limit: 2, remaining: 1 })
      await owner.admit({ consumerId: 'two', usageRequestId: 'two-2' })
      const error = (await refusal({ consumerId: 'two', usageRequestId: 'two-3' }, owner)) as ServiceError
      expect(error.code).toBe('consumer_allowance_exhausted')
      expect(Number(error.headers['Retry-After'])).toBeGreaterThan(0)
    })

    test('a retry of the run that used up the allowance is answered with that run', async () => {
      await owner.addMember('one', { messages: 1, period: 'lifetime' })
      const request = { consumerId: 'one', usageRequestId: 'one-1' }
      await owner.admit(request)
      expect(await refusal(request, owner)).toBe('replayed')
      const error = (await refusal({ ...request, usageRequestId: 'one-2' }, owner)) as ServiceError
      expect(error).toMatchObject({ code: 'consumer_allowance_exhausted' })
      expect(error.headers['Retry-After']).toBeUndefined()
    })

    test('bound the runs of a consumer at the same time', async () => {
      await owner.addMember('busy', { maxConcurrentRuns: 2 })
      const answers = await times(10, (index) => owner.admit({ consumerId: 'busy', usageRequestId: `busy-${index}` }))
      expect(codesOf(answers)).toEqual({ admitted: 2, consumer_concurrency_exceeded: 8 })
    })
  })

  describe('races', () => {
    test('64 requests for 4 chats: one run per chat', async () => {
      const owner = await platform.addTenant()
      const opened = await Promise.all(Array.from({ length: 4 }, () => owner.admit()))
      for (const admission of opened) await owner.finish(admission)
      const chats = opened.map((admission) => admission.run.chatId)
      const answers = await times(64, (index) => owner.admit({ chatId: chats[index % 4]! }))
      expect(codesOf(answers)).toEqual({ admitted: 4, run_active: 60 })
    })

    test('40 equal requests: one is admitted, the others are answered with its run', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      await owner.addMember('u', { messages: 1 })
      for (const usageRequestId of ['s-1']) {
        const answers = await times(40, () => owner.admit({ consumerId: 'u', usageRequestId }))
        expect(codesOf(answers)).toEqual({ admitted: 1, replayed: 39 })
        const runs = answers.map((one) => one.status === 'fulfilled' && one.value.run.runId)
        expect(new Set(runs).size).toBe(1)
      }
      const [count] = await platform.rows(`SELECT count(*)::int AS n FROM chats WHERE owner_id = '${owner.ownerId}'`)
      expect(count).toEqual({ n: 1 })
    })

    test('30 requests for one new alias: one chat, one run', async () => {
      const owner = await platform.addTenant()
      const answers = await times(30, () => owner.admit({ aliasChatId: 'new-room' }))
      expect(codesOf(answers)).toEqual({ admitted: 1, run_active: 29 })
      const [count] = await platform.rows(`SELECT count(*)::int AS n FROM chats WHERE owner_id = '${owner.ownerId}'`)
      expect(count).toEqual({ n: 1 })
    })

    test('a limit of 100 and 400 requests at once: exactly 100', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      await owner.addMember('many', { messages: 100, maxConcurrentRuns: 1000 })
      const answers = await times(400, (index) => owner.admit({ consumerId: 'many', usageRequestId: `m-${index}` }))
      expect(codesOf(answers)).toEqual({ admitted: 100, consumer_allowance_exhausted: 300 })
      const [ledger] = await platform.rows(
        `SELECT sum(messages)::int AS booked, (SELECT used_messages::int FROM allowance_periods
         WHERE owner_id = '${owner.ownerId}') AS counted FROM allowance_ledger WHERE owner_id = '${owner.ownerId}'`,
      )
      expect(ledger).toEqual({ booked: 100, counted: 100 })
    })
  })
})
