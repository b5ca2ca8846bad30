import { useSyncExternalStore } from 'react'
import { Icon } from './icons.tsx'

type Toast = { readonly id: number; readonly text: string; readonly tone: 'good' | 'bad' }

/** What went wrong takes longer to read. */
const SHOWN_MS = { good: 4_000, bad: 10_000 }

class Toasts {
  #all: readonly Toast[] = []
  #next = 0
  readonly #listeners = new Set<() => void>()

  get all(): readonly Toast[] {
    return this.#all
  }

  show(text: string, tone: Toast['tone'] = 'good'): void {
    const toast = { id: this.#next++, text, tone }
    this.#change([...this.#all.slice(-2), toast])
    setTimeout(() => this.#change(this.#all.filter((each) => each !== toast)), SHOWN_MS[tone])
  }

  subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }

  #change(all: readonly Toast[]): void {
    this.#all = all
    for (const listener of this.#listeners) listener()
  }
}

/** Short notes of what has been done, at the edge of the page. */
const toasts = new Toasts()

export const showToast = (text: string): void => toasts.show(text)

export const failedToast = (error: unknown): void =>
  toasts.show(error instanceof Error ? error.message : String(error), 'bad')

/** Copies, and says so. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    toasts.show(`${what} copied`)
  } catch {
    toasts.show('The browser does not let this page copy: it needs HTTPS or localhost.', 'bad')
  }
}

export function ToastList() {
  const all = useSyncExternalStore(toasts.subscribe, () => toasts.all)
  return (
    <div
      role="status"
      className="pointer-events-none fixed inset-x-0 bottom-4 z-50 flex flex-col items-center gap-2 px-4"
    >
      {all.map(({ id, text, tone }) => (
        <div
          key={id}
          className={`card flex max-w-full items-center gap-2 px-3 py-2 text-[13px] shadow-lg ${tone === 'bad' ? 'text-bad' : ''}`}
        >
          <Icon name={tone === 'bad' ? 'alert' : 'check'} className="shrink-0" />
          {text}
        </div>
      ))}
    </div>
  )
}
