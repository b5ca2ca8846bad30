import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { SERVER } from '../server/address.ts'
import { type Door, signOut, useCredentials } from '../server/credentials.ts'
import { factsQuery, forgetEverything } from '../server/queries.ts'
import { Button } from '../ui/button.tsx'
import { Page } from '../ui/page.tsx'
import { Doctor } from './doctor.tsx'
import { PlatformLimits, ServerLimits } from './limits.tsx'

/** Where the console is, as whom, and whether everything works. */
export function SettingsPage() {
  const { data: facts } = useQuery(factsQuery)
  return (
    <Page title="Settings" about={`Bureau ${facts?.version ?? ''} at ${SERVER}`}>
      <div className="flex flex-col gap-4">
        <Doctor />
        <ServerLimits />
        <PlatformLimits />
        <section className="card p-4">
          <h2 className="mb-2 font-semibold">Signed in</h2>
          <div className="flex flex-col gap-2">
            <SignedIn door="server" name="Self-hosted server" />
            <SignedIn door="platform" name="Platform" />
            {facts?.platform && <SignedIn door="operator" name="Operator" />}
          </div>
        </section>
      </div>
    </Page>
  )
}

function SignedIn({ door, name }: { readonly door: Door; readonly name: string }) {
  const queries = useQueryClient()
  const { [door]: secret } = useCredentials()
  const leave = (): void => {
    signOut(door)
    forgetEverything(queries)
  }
  return (
    <div className="flex min-h-8 items-center gap-3 text-[13px]">
      <span className="w-40">{name}</span>
      <span className="flex-1 font-mono text-xs text-soft">
        {secret === undefined ? 'not signed in' : `…${secret.slice(-4)}`}
      </span>
      {door === 'operator' && (
        <Link to="/owners" className="link">
          Owners
        </Link>
      )}
      {secret !== undefined && (
        <Button icon="logout" onClick={leave}>
          Sign out
        </Button>
      )}
    </div>
  )
}
