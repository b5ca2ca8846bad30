import { expect, onTestFinished, test, vi } from 'vitest'
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
