import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useCredentials } from '../server/credentials.ts'
import { factsQuery, useServerAccess } from '../server/queries.ts'
import { Empty, Failure, Loading } from '../ui/page.tsx'
import { SignIn } from './sign-in.tsx'

/** Pages of the self-hosted server, for those who may see them. */
export function ServerDoor() {
  const access = useServerAccess()
  const facts = useQuery(factsQuery)
  switch (access) {
    case 'loading':
      return <Loading />
    case 'locked':
      return <SignIn door="server" />
    case 'none':
      return <Empty icon="chat" title="There are no agencies here: this is the hosted platform alone." />
    case 'unreachable':
      return (
        <div className="p-6">
          <Failure error={new Error('The server cannot be reached.')} retry={() => void facts.refetch()} />
        </div>
      )
    case 'open':
      return <Outlet />
  }
}

/** Pages of the platform, for those who have an API key. */
export function PlatformDoor() {
  const { platform } = useCredentials()
  const { data: facts } = useQuery(factsQuery)
  if (facts && !facts.platform)
    return <Empty icon="plug" title="There is no platform here: start it with bureau start." />
  return platform === undefined ? <SignIn door="platform" /> : <Outlet />
}
