import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { PushDelivery } from './push-delivery.ts'

const MINUTE_MS = 60_000

describe('the notifications of one receiver', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  const change = (state: 'TASK_STATE_INPUT_REQUIRED' | 'TASK_STATE_COMPLETED') => {
    return { taskId: 't', contextId: 'c', state, timestamp: '2026-01-01T00:00:00.000Z' }
  }

  function start(answers: (number | null)[]) {
    const begunAt = performance.now()
    const sent: [seconds: number, state: string][] = []
    const delivery = new PushDelivery(async ({ state }) => {
      sent.push([(performance.now() - begunAt) / 1_000, state])
      return answers.length > 1 ? answers.shift()! : answers[0]!
    })
    return { delivery, sent }
  }

  test('come again, later each time, until they are taken', async () => {
    const { delivery, sent } = start([500, null, 200])

    delivery.due = change('TASK_STATE_COMPLETED')
    await vi.advanceTimersByTimeAsync(60 * MINUTE_MS)

    expect(sent.map(([seconds]) => seconds)).toEqual([0, 5, 15])
  })

  test('are given up after 21 minutes', async () => {
    const { delivery, sent } = start([null])

    delivery.due = change('TASK_STATE_COMPLETED')
    await vi.advanceTimersByTimeAsync(60 * MINUTE_MS)

    expect(sent.map(([seconds]) => seconds)).toEqual([0, 5, 15, 35, 75, 155, 315, 635, 1_275])
  })

  test('are given up at once by a receiver that is gone', async () => {
    const { delivery, sent } = start([410])

    delivery.due = change('TASK_STATE_COMPLETED')
    await vi.advanceTimersByTimeAsync(60 * MINUTE_MS)

    expect(sent).toHaveLength(1)
  })

  test('are about how the task is now, and not about what a receiver has missed', async () => {
    const { delivery, sent } = start([500, 200])
    delivery.due = change('TASK_STATE_INPUT_REQUIRED')
    await vi.advanceTimersByTimeAsync(1_000)

    delivery.due = change('TASK_STATE_COMPLETED')
    await vi.advanceTimersByTimeAsync(60 * MINUTE_MS)

    expect(sent).toEqual([
      [0, 'TASK_STATE_INPUT_REQUIRED'],
      [1, 'TASK_STATE_COMPLETED'],
    ])
  })

  test('of a new state come as often as those of the first one, however often that has failed', async () => {
    const { delivery, sent } = start([500])
    delivery.due = change('TASK_STATE_INPUT_REQUIRED')
    await vi.advanceTimersByTimeAsync(6 * MINUTE_MS)

    delivery.due = change('TASK_STATE_COMPLETED')
    await vi.advanceTimersByTimeAsync(60 * MINUTE_MS)

    const ofEnd = sent.filter(([, state]) => state === 'TASK_STATE_COMPLETED').map(([seconds]) => seconds - 360)
    expect(ofEnd).toEqual([0, 5, 15, 35, 75, 155, 315, 635, 1_275])
  })

  test('of a new state come when the answer to the one before has come', async () => {
    const answer = Promise.withResolvers<number>()
    const sent: string[] = []
    const delivery = new PushDelivery(async ({ state }) => {
      sent.push(state)
      return answer.promise
    })
    delivery.due = change('TASK_STATE_INPUT_REQUIRED')
    delivery.due = change('TASK_STATE_COMPLETED')
    expect(sent).toEqual(['TASK_STATE_INPUT_REQUIRED'])

    answer.resolve(500)
    await vi.advanceTimersByTimeAsync(0)

    expect(sent).toEqual(['TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_COMPLETED'])
  })

  test('do not come again when there is nothing to say any more', async () => {
    const { delivery, sent } = start([500])
    delivery.due = change('TASK_STATE_INPUT_REQUIRED')
    await vi.advanceTimersByTimeAsync(1_000)

    delivery.due = undefined
    await vi.advanceTimersByTimeAsync(60 * MINUTE_MS)

    expect(sent).toHaveLength(1)
  })
})
