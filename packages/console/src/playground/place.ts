import { getRouteApi } from '@tanstack/react-router'
import { textsOf } from '../address-search.ts'
import { newChatId, type Partner } from '../chats/chat.ts'

const route = getRouteApi('/play/$agency')

/** What is open beside the chat. */
export type Panel = 'events' | 'graph' | 'tools'

/** One chat of the playground, as the address has it. */
export type Side = {
  readonly agency: string
  readonly on?: 'platform'
  readonly consumer?: string
  readonly chat?: string
}

type PlaySearch = Omit<Side, 'agency'> & {
  readonly panel?: Panel
  /** A second chat, to compare. */
  readonly beside?: Side
}

const isPanel = (value: unknown): value is Panel => value === 'events' || value === 'graph' || value === 'tools'

export function readPlace(search: Readonly<Record<string, unknown>>): PlaySearch {
  const { panel, beside } = search
  const other = typeof beside === 'object' && beside !== null ? (beside as Record<string, unknown>) : {}
  const { agency } = textsOf(other, ['agency'])
  return {
    ...readSide(search),
    ...(isPanel(panel) && { panel }),
    ...(agency !== undefined && { beside: { agency, ...readSide(other) } }),
  }
}

const readSide = (search: Readonly<Record<string, unknown>>): Omit<Side, 'agency'> => ({
  ...(search['on'] === 'platform' && { on: 'platform' }),
  ...textsOf(search, ['consumer', 'chat']),
})

export const partnerOf = ({ agency, on, consumer }: Side): Partner =>
  on === 'platform' ? { agency, platform: consumer === undefined ? {} : { consumer } } : { agency }

/** The same partner in a new chat. */
export const renewed = (side: Side): Side => ({ ...side, chat: newChatId() })

type Place = {
  readonly main: Side
  readonly beside: Side | undefined
  readonly panel: Panel | undefined
  readonly toMain: (side: Side) => void
  readonly toBeside: (side: Side) => void
  /** Goes on with one of two chats alone. */
  readonly keep: (side: Side) => void
  /** Opens a panel and closes the one that was open. */
  readonly toggle: (panel: Panel) => void
}

/** Which chats and which panel the address names, and what changes that. */
export function usePlace(): Place {
  const { agency } = route.useParams()
  const { panel, beside, ...own } = route.useSearch()
  const navigate = route.useNavigate()
  const rest = { ...(panel && { panel }), ...(beside && { beside }) }
  return {
    main: { agency, ...own },
    beside,
    panel,
    // An address without a chat is never gone back to.
    toMain: ({ agency: name, ...side }) =>
      void navigate({
        to: '/play/$agency',
        params: { agency: name },
        search: { ...side, ...rest },
        replace: own.chat === undefined,
      }),
    toBeside: (side) =>
      void navigate({
        search: { ...own, beside: side },
        replace: beside !== undefined && beside.chat === undefined,
      }),
    keep: ({ agency: name, ...side }) => void navigate({ to: '/play/$agency', params: { agency: name }, search: side }),
    toggle: (next) => void navigate({ search: { ...own, ...(next !== panel && { panel: next }) } }),
  }
}
