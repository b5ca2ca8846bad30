import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { IconButton, iconButtonClass } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Menu } from '../ui/menu.tsx'
import { ToastList } from '../ui/toasts.tsx'
import { useChats } from '../chats/use-chats.ts'
import { useWaitingRuns, waitingRunsQuery } from '../server/approvals.ts'
import { isServerThere, useIsServerLost } from '../server/reachability.ts'
import { FocusKeeper } from './keep-focus.ts'
import { INBOX, useSections } from './navigation.ts'
import { Palette } from './palette.tsx'
import { setTheme, useTheme } from '../ui/theme.ts'

/** What stands around every page: where one can go, and the search over everything. */
export function Shell() {
  const [shown, setShown] = useState(false)
  const [searching, setSearching] = useState(false)
  const toggle = useRef<HTMLButtonElement>(null)
  const closeNavigation = (): void => {
    if (shown) toggle.current?.focus()
    setShown(false)
  }
  useSearchKey(setSearching)
  useKeptFocus()
  const search = (): void => setSearching(true)
  return (
    <div className="flex h-dvh flex-col">
      <a
        href="#main"
        onClick={focusMain}
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-lg focus:bg-panel focus:p-2"
      >
        To the content
      </a>
      <LostServer />
      <div
        className="relative flex min-h-0 flex-1 flex-col md:flex-row"
        onKeyDown={({ key }) => key === 'Escape' && closeNavigation()}
      >
        <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line bg-panel px-2 md:hidden">
          <IconButton
            ref={toggle}
            icon={shown ? 'close' : 'menu'}
            label="Navigation"
            aria-expanded={shown}
            onClick={() => setShown(!shown)}
          />
          <Brand />
        </header>
        <div
          className={`${shown ? 'flex' : 'hidden'} absolute inset-x-0 top-12 bottom-0 z-40 md:static md:z-auto md:flex`}
        >
          <Sidebar search={search} onPicked={() => setShown(false)} />
        </div>
        <main
          id="main"
          tabIndex={-1}
          onFocus={() => setShown(false)}
          className="relative min-h-0 min-w-0 flex-1 outline-none"
        >
          <Outlet />
        </main>
      </div>
      {searching && <Palette onClose={() => setSearching(false)} />}
      <ToastList />
    </div>
  )
}

/** Ctrl+K opens the search, wherever the focus is. The search is part of the first page: the next letter is meant for it. */
function useSearchKey(setSearching: (searching: true) => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      setSearching(true)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [setSearching])
}

/** Where the focus is when what has it goes, and when another page is shown. */
function useKeptFocus(): void {
  const [keeper] = useState(() => new FocusKeeper())
  const path = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname })
  const before = useRef(path)
  useEffect(() => keeper.start(), [keeper])
  useEffect(() => {
    if (before.current !== undefined && before.current !== path) keeper.pageChanged()
    before.current = path
  }, [keeper, path])
}

/** The address holds the page already. */
function focusMain(event: { preventDefault(): void }): void {
  event.preventDefault()
  document.querySelector<HTMLElement>('main')?.focus()
}

function Brand() {
  return (
    <span className="flex items-center gap-2 text-sm font-semibold">
      <svg aria-hidden="true" width="22" height="22" viewBox="0 0 32 32">
        <rect width="32" height="32" rx="8" fill="#4f46e5" />
        <path
          d="M10 8h7a4.5 4.5 0 0 1 2.6 8.2A4.8 4.8 0 0 1 17.5 24H10zm4 3.5v3.2h2.6a1.6 1.6 0 0 0 0-3.2zm0 6.4v2.7h3a1.35 1.35 0 0 0 0-2.7z"
          fill="#fff"
        />
      </svg>
      Bureau
    </span>
  )
}

function Sidebar({ search, onPicked }: { readonly search: () => void; readonly onPicked: () => void }) {
  const sections = useSections()
  return (
    <nav
      aria-label="Pages"
      className="flex w-full flex-col gap-1 overflow-y-auto border-r border-line bg-panel p-2 md:w-48"
    >
      <div className="hidden h-10 shrink-0 items-center px-2 md:flex">
        <Brand />
      </div>
      <button
        type="button"
        onClick={search}
        className="mb-1 flex min-h-8 shrink-0 items-center gap-2 rounded-lg border border-line bg-page px-2 text-[13px] text-soft hover:bg-hover"
      >
        <Icon name="search" />
        <span className="flex-1 text-left">Search</span>
        <kbd className="hidden font-sans text-[11px] md:inline">Ctrl K</kbd>
      </button>
      {sections.map(({ label, items }) => (
        <div key={label ?? items[0]!.to} className="flex flex-col gap-0.5">
          {label !== null && <h2 className="px-2 pt-3 pb-1 text-xs font-medium text-soft">{label}</h2>}
          {items.map(({ to, label: name, icon }) => (
            <Link
              key={to}
              to={to}
              onClick={onPicked}
              className="flex min-h-8 items-center gap-2 rounded-lg px-2 text-[13px] text-soft hover:bg-hover hover:text-ink data-[status=active]:bg-accent-soft data-[status=active]:font-medium data-[status=active]:text-accent"
            >
              <Icon name={icon} />
              <span className="flex-1">{name}</span>
              {to === INBOX.to && <WaitingCount />}
            </Link>
          ))}
        </div>
      ))}
      <div className="mt-auto flex items-center justify-end pt-2">
        <ThemeMenu />
      </div>
    </nav>
  )
}

/** How much waits for a person, in this browser's chats and on the platform. */
function WaitingCount() {
  const { data } = useWaitingRuns()
  const waiting = useChats().filter(({ waits }) => waits)
  const ofPlatform = waiting.filter(({ platform }) => platform)
  useReadAnew(ofPlatform.map(({ id }) => id).join(' '))
  const count = waiting.length - ofPlatform.length + (data?.runs.length ?? 0)
  if (count === 0) return null
  return (
    <span className="rounded-full bg-warn-soft px-1.5 text-xs font-medium text-warn tabular-nums">
      {count}
      {data?.isCut && '+'}
      <span className="sr-only"> waiting</span>
    </span>
  )
}

/** Has the waiting runs of the platform read anew when other chats wait than before: this browser sees it first. */
function useReadAnew(waiting: string): void {
  const queries = useQueryClient()
  const before = useRef(waiting)
  useEffect(() => {
    if (before.current !== waiting) void queries.invalidateQueries({ queryKey: waitingRunsQuery.queryKey })
    before.current = waiting
  }, [queries, waiting])
}

function ThemeMenu() {
  const theme = useTheme()
  return (
    <Menu
      label="Theme"
      className={iconButtonClass}
      items={[
        { label: 'As the system', icon: 'settings', act: () => setTheme('system') },
        { label: 'Light', icon: 'sun', act: () => setTheme('light') },
        { label: 'Dark', icon: 'moon', act: () => setTheme('dark') },
      ]}
    >
      <Icon name={theme === 'dark' ? 'moon' : 'sun'} />
    </Menu>
  )
}

const ASK_AGAIN_MS = 2_000

/** Says that the server cannot be reached, as long as that is so, and then has everything read anew. */
function LostServer() {
  const isLost = useIsServerLost()
  const queries = useQueryClient()
  useEffect(() => {
    if (!isLost) return
    const timer = setInterval(() => void isServerThere(), ASK_AGAIN_MS)
    return () => {
      clearInterval(timer)
      void queries.invalidateQueries()
    }
  }, [isLost, queries])
  if (!isLost) return null
  return (
    <div
      role="alert"
      className="flex shrink-0 flex-wrap items-center justify-center gap-x-2 border-b border-bad/40 bg-bad-soft px-3 py-1.5 text-[13px] text-bad"
    >
      <Icon name="alert" className="shrink-0" />
      <p>The server cannot be reached. It is asked again every two seconds; what you have written stays here.</p>
      <button type="button" className="font-medium link" onClick={() => void isServerThere()}>
        Try again now
      </button>
    </div>
  )
}
