import { Observable, useValue } from '../observable.ts'

type Theme = 'system' | 'light' | 'dark'

const KEY = 'bureau:theme'

const isTheme = (text: string | null): text is Theme => text === 'light' || text === 'dark' || text === 'system'

function keptTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY)
    return isTheme(kept) ? kept : 'system'
  } catch {
    return 'system'
  }
}

const theme = new Observable(keptTheme())

export const useTheme = (): Theme => useValue(theme)

/** Shows the page as it was chosen before. Called before anything is drawn. */
export function applyTheme(): void {
  if (theme.value === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme.value
}

export function setTheme(chosen: Theme): void {
  try {
    localStorage.setItem(KEY, chosen)
  } catch {
    // It holds until the page is loaded again.
  }
  theme.set(chosen)
  applyTheme()
}
