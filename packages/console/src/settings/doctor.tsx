import { useQuery } from '@tanstack/react-query'
import { factsQuery, routesQuery, useServerAccess } from '../server/queries.ts'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Unread } from '../ui/page.tsx'
import { examine } from './examine.ts'

/** What is well with the server, and what is not. */
export function Doctor() {
  const access = useServerAccess()
  const { data: facts } = useQuery(factsQuery)
  const { data: routes } = useQuery({ ...routesQuery, enabled: access === 'open' })
  const findings = useQuery({
    queryKey: ['doctor', access, facts, routes],
    queryFn: () => examine(facts!, routes),
    enabled: facts !== undefined && (access !== 'open' || routes !== undefined),
    staleTime: 0,
  })
  return (
    <section className="card p-4">
      <div className="mb-2 flex items-center justify-between">
        <h2 className="font-semibold">Doctor</h2>
        <Button icon="retry" onClick={() => void findings.refetch()}>
          Look again
        </Button>
      </div>
      <Unread of={findings} what="Looking" />
      <ul className="flex flex-col gap-1.5 text-[13px]">
        {findings.data?.map(({ state, what, fix }) => (
          <li key={what} className="flex items-start gap-2">
            <Icon name={state === 'good' ? 'check' : 'alert'} className={`mt-0.5 shrink-0 ${LOOKS[state]}`} />
            <span>
              {what}
              {fix && <span className="block text-soft">{fix}</span>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}

const LOOKS = { good: 'text-good', warn: 'text-warn', bad: 'text-bad' } as const
