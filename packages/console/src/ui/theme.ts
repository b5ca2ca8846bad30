import { useSyncExternalStore } from 'react'

type Theme = 'system' | 'light' | 'dark'

const KEY = 'bureau:theme'
const listeners = new Set<() => void>()

const isTheme = (text: string | null): text is Theme => text === 'light' || text === 'dark' || text === 'system'

function currentTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY)
    return isTheme(kept) ? kept : 'system'
  } catch {
    return 'system'
  }
}

/** Shows the page as it was chosen before. Called before anything is drawn. */
export function applyTheme(theme: Theme = currentTheme()): void {
  if (theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
}

export function setTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme)
  } catch {
    // It holds until the page is loaded again.
  }
  applyTheme(theme)
  for (const listener of listeners) listener()
}

export function useTheme(): Theme {
  return useSyncExternalStore((changed) => {
    listeners.add(changed)
    return () => void listeners.delete(changed)
  }, currentTheme)
}
