import type { PlatformReplica, PlatformSettings, ServerSettings, SettingsLimit } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useCredentials } from '../server/credentials.ts'
import { factsQuery, useServerRoutes } from '../server/queries.ts'
import { ask, isForbidden } from '../server/request.ts'
import { Badge, Status } from '../ui/badge.tsx'
import { type Column, DataTable, timeColumn } from '../ui/data-table.tsx'
import { bytes, duration, moment, whole } from '../ui/format.ts'
import { Unread } from '../ui/page.tsx'

const REFRESH_MS = 10_000

/** What the self-hosted server was started with. */
export function ServerLimits() {
  const { data: routes } = useServerRoutes()
  const isShown = routes?.paths.includes('/console/settings') === true
  const settings = useQuery({
    queryKey: ['server-settings'],
    queryFn: () => ask<ServerSettings>('server', 'console/settings'),
    enabled: isShown,
  })
  if (!isShown) return null
  const { data } = settings
  return (
    <Card title="Self-hosted server">
      <Unread of={settings} />
      {data && (
        <Settings settings={data}>
          <p>Public addresses.</p>
          <Rules title="Besides" rules={data.egress.allow} />
          <Rules title="Never" rules={data.egress.deny} />
        </Settings>
      )}
    </Card>
  )
}

/** What the platform was started with, and its processes. */
export function PlatformLimits() {
  const { data: facts } = useQuery(factsQuery)
  const { platform } = useCredentials()
  const isShown = facts?.platform === true && platform !== undefined
  const settings = useQuery({
    queryKey: ['platform', 'settings'],
    queryFn: () => ask<PlatformSettings>('platform', 'v1/settings'),
    enabled: isShown,
    refetchInterval: (query) => !isForbidden(query) && REFRESH_MS,
  })
  if (!isShown) return null
  const { data } = settings
  return (
    <Card title="Platform">
      <Unread of={settings} />
      {data && (
        <>
          <Settings settings={data}>
            <p>
              Public addresses
              {data.egress.exceptions > 0 && `, and ${data.egress.exceptions} that the operator has named`}.
            </p>
            <p>Attachments from {data.egress.attachmentPorts.map((port) => `port ${port}`).join(', ')}.</p>
          </Settings>
          <h3 className="mt-4 mb-1 text-[13px] font-medium">Processes</h3>
          <DataTable label="Processes" rows={data.replicas} keyOf={({ id }) => id} columns={REPLICA_COLUMNS} />
        </>
      )}
    </Card>
  )
}

const REPLICA_COLUMNS: readonly Column<PlatformReplica>[] = [
  { name: 'State', cell: ({ state }) => <Status of={state} /> },
  {
    name: 'Process',
    grows: true,
    cell: ({ id, answers }) => (
      <span className="flex flex-wrap items-center gap-1">
        <code className="block max-w-full truncate text-xs">{id}</code>
        {answers && <Badge tone="accent">answers you</Badge>}
      </span>
    ),
  },
  { name: 'Version', cell: ({ version }) => version ?? '', wideOnly: true },
  { name: 'Runs', cell: ({ activeRuns }) => whole(activeRuns), right: true },
  timeColumn('Began', ({ startedAt }) => startedAt),
  { name: 'Heartbeat', cell: ({ heartbeatAt }) => moment(heartbeatAt), right: true, wraps: true },
]

type SettingsProps = {
  readonly settings: Pick<ServerSettings, 'limits' | 'features'>
  /** Where it connects to on behalf of callers. */
  readonly children: ReactNode
}

function Settings({ settings: { limits, features }, children }: SettingsProps) {
  return (
    <div className="grid gap-x-8 gap-y-4 text-[13px] lg:grid-cols-2">
      <section>
        <h3 className="mb-1 font-medium">Limits in force</h3>
        <dl className="flex flex-col gap-1">
          {limits.map((limit) => (
            <Row key={limit.name} name={limit.name} about={limit.about} value={amount(limit)} />
          ))}
        </dl>
      </section>
      <section>
        <h3 className="mb-1 font-medium">What is on</h3>
        <dl className="flex flex-col gap-1">
          {features.map(({ name, about, on }) => (
            <Row key={name} name={name} about={about} value={on ? 'on' : 'off'} />
          ))}
        </dl>
        <h3 className="mt-4 mb-1 font-medium">Callers may have it connect to</h3>
        {children}
      </section>
    </div>
  )
}

type RowProps = { readonly name: string; readonly about: string; readonly value: string }

function Row({ name, about, value }: RowProps) {
  return (
    <div className="flex items-baseline justify-between gap-4 border-b border-line pb-1">
      <dt className="min-w-0">
        {about}
        <code className="block truncate text-xs text-soft">{name}</code>
      </dt>
      <dd className={`shrink-0 tabular-nums ${value === 'off' ? 'text-soft' : 'font-medium'}`}>{value}</dd>
    </div>
  )
}

function Rules({ title, rules }: { readonly title: string; readonly rules: readonly string[] }) {
  if (rules.length === 0) return null
  return (
    <p>
      {title}:{' '}
      {rules.map((rule) => (
        <code key={rule} className="mr-2 text-xs">
          {rule}
        </code>
      ))}
    </p>
  )
}

const DAY_SECONDS = 86_400

function amount({ value, unit }: SettingsLimit): string {
  if (unit === 'bytes') return bytes(value)
  if (unit === 'milliseconds') return duration(value)
  if (unit !== 'seconds') return whole(value)
  return value >= DAY_SECONDS ? `${whole(value / DAY_SECONDS)} days` : duration(value * 1_000)
}

function Card({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section aria-label={title} className="card p-4">
      <h2 className="mb-2 font-semibold">{title}</h2>
      {children}
    </section>
  )
}
