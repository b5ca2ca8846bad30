import { useQuery } from '@tanstack/react-query'
import { Outlet, useSearch } from '@tanstack/react-router'
import { Activity, type ReactNode } from 'react'
import { PlaygroundPage } from '../playground/playground-page.tsx'
import { refused, useCredentials } from '../server/credentials.ts'
import { factsQuery, useServerAccess, useServerRoutes } from '../server/queries.ts'
import { Empty, Unread } from '../ui/page.tsx'
import { FirstPartner } from './first-partner.tsx'
import { SignIn } from './sign-in.tsx'

type Props = { readonly children?: ReactNode }

/** Pages of the self-hosted server, for those who may see them. */
export function ServerDoor({ children = <Outlet /> }: Props) {
  const access = useServerAccess()
  const facts = useQuery(factsQuery)
  const routes = useServerRoutes()
  switch (access) {
    case 'locked':
      return <SignIn door="server" />
    case 'none':
      return <Empty icon="chat" title="There are no agencies here: this is the hosted platform alone." />
    case 'unread':
      return (
        <div className="p-6">
          <Unread of={facts.data ? routes : facts} />
        </div>
      )
    case 'open':
      return children
  }
}

type PlatformProps = Props & { readonly door?: 'platform' | 'operator' }

/** Pages of the platform, for those who have an API key, or the operator's. */
export function PlatformDoor({ door = 'platform', children = <Outlet /> }: PlatformProps) {
  const { [door]: secret } = useCredentials()
  const { data: facts } = useQuery(factsQuery)
  if (facts && !facts.platform)
    return <Empty icon="plug" title="There is no platform here: start it with bureau start." />
  const isOpen = secret !== undefined
  return (
    <>
      {!isOpen && <SignIn door={door} />}
      {/* What was typed there is not lost when a key is refused: the page comes back when somebody signs in. */}
      {(isOpen || refused.has(door)) && <Activity mode={isOpen ? 'visible' : 'hidden'}>{children}</Activity>}
    </>
  )
}

/** The playground, behind the door of whom one talks to. */
export function PlayDoor() {
  const { on } = useSearch({ from: '/play/$agency' })
  const Door = on === 'platform' ? PlatformDoor : ServerDoor
  return (
    <Door>
      <PlaygroundPage />
    </Door>
  )
}

/** The playground before it is known whom one talks to. */
export function FirstDoor() {
  const { data: facts } = useQuery(factsQuery)
  const Door = facts?.agencies === 'none' ? PlatformDoor : ServerDoor
  return (
    <Door>
      <FirstPartner />
    </Door>
  )
}

/** The guide: a self-hosted server shows it to those who have its token, the platform to everybody. */
export function GuideDoor() {
  const { data: facts } = useQuery(factsQuery)
  return facts?.agencies === 'none' ? <Outlet /> : <ServerDoor />
}
