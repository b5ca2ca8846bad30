import { createContext } from 'react'

type Guide = {
  /** Where a link leads within the console; undefined: elsewhere. */
  readonly addressOf: (href: string) => string | undefined
  /** The id of a heading. */
  readonly anchorOf: (heading: string) => string
}

/** Set around documents of ours: only their links lead within the console. What a model writes leads nowhere in it. */
export const GuideContext = createContext<Guide | undefined>(undefined)
