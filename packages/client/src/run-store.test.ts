import { expect, onTestFinished, test, vi } from 'vitest'
import { memoryStorage } from '../../../tests/support/broken-connections.ts'
import { historiesIn } from './run-store.ts'

const MESSAGES = [{ role: 'user', content: 'Hi' }]

test('a page that may store nothing, as one in a frame of another site, keeps its histories while it is there', () => {
  const forbidden: PropertyDescriptor = {
    configurable: true,
    get: () => {
      throw new DOMException('Access is denied for this document.', 'SecurityError')
    },
  }
  const own = Object.getOwnPropertyDescriptor(globalThis, 'localStorage')
  vi.stubGlobal('document', {})
  Object.defineProperty(globalThis, 'localStorage', forbidden)
  onTestFinished(() => {
    vi.unstubAllGlobals()
    if (own) Object.defineProperty(globalThis, 'localStorage', own)
    else delete (globalThis as { localStorage?: unknown }).localStorage
  })
  const histories = historiesIn()
  histories.set('c', MESSAGES)

  expect(histories.get('c')).toEqual(MESSAGES)
})

test('what a full storage cannot keep is there as long as the page, and kept again when there is room', () => {
  const storage = memoryStorage()
  let isFull = true
  const setItem = (key: string, value: string): void => {
    if (isFull) throw new DOMException('The quota has been exceeded.', 'QuotaExceededError')
    storage.setItem(key, value)
  }
  const open = () => historiesIn({ ...storage, setItem })
  const histories = open()
  histories.set('c', MESSAGES)
  expect(histories.get('c')).toEqual(MESSAGES)
  expect(open().get('c')).toEqual([])

  isFull = false
  histories.set('c', [...MESSAGES, ...MESSAGES])
  expect(open().get('c')).toHaveLength(2)
})
