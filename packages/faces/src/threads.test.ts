import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { Threads } from './threads.ts'

const say = (text: string) => [{ type: 'message', role: 'user', content: text }]

/** A thread with one message. */
function begun(threads: Threads, owner = 'ada', text = 'hello'): string {
  const thread = threads.open(owner)
  thread.add(say(text))
  thread.close()
  return thread.id
}

describe('a thread', () => {
  test('has what was added to it, for its owner', () => {
    const threads = new Threads()
    const id = begun(threads)

    expect(threads.open('ada', id).history).toEqual(say('hello'))
    expect(() => threads.open('bob', id)).toThrow(expect.objectContaining({ code: 'thread_not_found' }))
  })

  test('takes one run at a time', () => {
    const threads = new Threads()
    const id = begun(threads)
    const open = threads.open('ada', id)

    expect(() => threads.open('ada', id)).toThrow(expect.objectContaining({ code: 'run_active' }))
    open.close()
    expect(threads.open('ada', id).id).toBe(id)
  })

  test('to which nothing was added is gone', () => {
    const threads = new Threads()
    const { id, close } = threads.open('ada')
    close()

    expect(() => threads.open('ada', id)).toThrow(expect.objectContaining({ code: 'thread_not_found' }))
  })
})

describe('are forgotten', () => {
  test('when nobody has used them for long, but not while a run works on them', () => {
    let nowMs = 0
    const threads = new Threads({ idleMs: 1_000 }, () => nowMs)
    const [idle, busy] = [begun(threads), begun(threads)]
    const open = threads.open('ada', busy)

    nowMs = 2_000
    begun(threads)
    open.close()

    expect(() => threads.open('ada', idle)).toThrow(expect.objectContaining({ code: 'thread_not_found' }))
    expect(threads.open('ada', busy).history).toHaveLength(1)
  })

  test('no sooner when the clock of the machine is set forward', () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const threads = new Threads()
    const id = begun(threads)
    vi.setSystemTime(Date.now() + 7_200_000)

    expect(threads.open('ada', id).history).toHaveLength(1)
  })

  test('when there are too many: first those that were not used for the longest time', () => {
    const threads = new Threads({ maxThreads: 2 })
    const [first, second] = [begun(threads), begun(threads)]
    threads.open('ada', first).close()
    begun(threads)

    expect(threads.open('ada', first).history).toHaveLength(1)
    expect(() => threads.open('ada', second)).toThrow(expect.objectContaining({ code: 'thread_not_found' }))
  })

  test('when they take too much room', () => {
    const threads = new Threads({ maxBytes: 1_000 })
    const long = begun(threads, 'ada', 'x'.repeat(900))
    const short = begun(threads, 'ada', 'x'.repeat(200))

    expect(() => threads.open('ada', long)).toThrow(expect.objectContaining({ code: 'thread_not_found' }))
    expect(threads.open('ada', short).history).toHaveLength(1)
  })

  test('never while runs work on all of them: then no other begins', () => {
    const threads = new Threads({ maxThreads: 1 })
    const open = threads.open('ada')

    expect(() => threads.open('ada')).toThrow(expect.objectContaining({ code: 'overloaded' }))
    open.close()
    expect(threads.open('ada').history).toEqual([])
  })
})
