import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { WebhookDeliverer } from './webhook-deliverer.ts'

describe('the deliverer of webhooks', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  function start(answers: (number | null | Error)[] = []) {
    const rounds: number[] = []
    const errors: unknown[] = []
    const begunAt = performance.now()
    const deliverer = new WebhookDeliverer({
      deliver: async () => {
        rounds.push(performance.now() - begunAt)
        const answer = answers.shift() ?? null
        if (answer instanceof Error) throw answer
        return answer
      },
      onError: (error) => errors.push(error),
    })
    return { deliverer, rounds, errors }
  }

  test('does nothing until it is woken', async () => {
    const { deliverer, rounds } = start()
    await vi.advanceTimersByTimeAsync(95_000)
    expect(rounds).toEqual([])
    await deliverer.close()
  })

  test('delivers at once when it is woken, and what comes right after that together, a second later', async () => {
    const { deliverer, rounds } = start()
    deliverer.wake()
    await vi.advanceTimersByTimeAsync(10)
    for (let run = 0; run < 50; run++) deliverer.wake()
    await vi.advanceTimersByTimeAsync(5_000)
    expect(rounds).toEqual([0, 1_000])
    await deliverer.close()
  })

  test('comes back when a delivery is to be tried again', async () => {
    const { deliverer, rounds } = start([5_000, 10_000, 86_400_000])
    deliverer.wake()
    await vi.advanceTimersByTimeAsync(20_000)
    expect(rounds).toEqual([0, 5_000, 15_000])
    await vi.advanceTimersByTimeAsync(86_400_000)
    expect(rounds).toEqual([0, 5_000, 15_000, 86_415_000])
    await deliverer.close()
  })

  test('goes on while there may be more, and no longer than until it is closed', async () => {
    const { deliverer, rounds } = start([0, 0, 5_000, 0])
    deliverer.wake()
    await vi.advanceTimersByTimeAsync(1)
    expect(rounds).toEqual([0, 0, 0])

    await vi.advanceTimersByTimeAsync(4_998)
    vi.advanceTimersByTime(1)
    await deliverer.close()

    expect(rounds).toEqual([0, 0, 0, 5_000])
  })

  test('a round that fails is reported; whoever wakes it next has it done', async () => {
    const { deliverer, rounds, errors } = start([new Error('the database is away')])
    deliverer.wake()
    await vi.advanceTimersByTimeAsync(10_000)
    expect([rounds, errors]).toEqual([[0], [new Error('the database is away')]])
    deliverer.wake()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(rounds).toEqual([0, 10_000])
    await deliverer.close()
  })

  test('nothing begins after it was closed', async () => {
    const { deliverer, rounds } = start()
    await deliverer.close()
    deliverer.wake()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(rounds).toEqual([])
  })
})
