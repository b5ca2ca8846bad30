import { reasonOf } from '../server/reason.ts'
import { Icon } from './icons.tsx'
import { Observable, useValue } from '../observable.ts'

type Toast = { readonly id: number; readonly text: string; readonly tone: 'good' | 'bad' }

/** What went wrong takes longer to read. */
const SHOWN_MS = { good: 4_000, bad: 10_000 }

/** Short notes of what has been done, at the edge of the page. */
const toasts = new Observable<readonly Toast[]>([])

function show(text: string, tone: Toast['tone']): void {
  const toast = { id: (toasts.value.at(-1)?.id ?? 0) + 1, text, tone }
  toasts.set([...toasts.value.slice(-2), toast])
  setTimeout(() => toasts.set(toasts.value.filter((each) => each !== toast)), SHOWN_MS[tone])
}

export const showToast = (text: string): void => show(text, 'good')

export const failedToast = (error: unknown): void => show(reasonOf(error), 'bad')

/** Copies, and says so. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    show(`${what} copied`, 'good')
  } catch {
    show('The browser does not let this page copy: it needs HTTPS or localhost.', 'bad')
  }
}

export function ToastList() {
  const all = useValue(toasts)
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
