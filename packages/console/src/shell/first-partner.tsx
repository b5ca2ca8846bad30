import { useLocation, useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useIntegrations } from '../parts/integrations.tsx'
import { useServerRoutes } from '../server/queries.ts'
import { Empty, Failure, Loading } from '../ui/page.tsx'

/** Goes to the first agency, or the first integration where there are no agencies, once it is known which there are. */
export function FirstPartner() {
  const { data: routes } = useServerRoutes()
  const integrations = useIntegrations()
  const navigate = useNavigate()
  const isGraph = useLocation({ select: ({ pathname }) => pathname === '/graph' })
  const agency = routes?.agencies[0]
  const integration = integrations.data?.find(({ status }) => status === 'active')?.apiIntegrationId
  useEffect(() => {
    if (agency !== undefined) {
      void navigate({ to: isGraph ? '/graph/$agency' : '/play/$agency', params: { agency }, replace: true })
    } else if (integration !== undefined && !isGraph) {
      const params = { agency: integration }
      void navigate({ to: '/play/$agency', params, search: { on: 'platform' }, replace: true })
    }
  }, [agency, integration, isGraph, navigate])
  if (routes && agency === undefined) return <Empty icon="chat" title="This server has tools and no agency." />
  if (integrations.error) return <Failure error={integrations.error} retry={() => void integrations.refetch()} />
  if (integrations.data && integration === undefined) return <NoIntegration />
  return <Loading />
}

function NoIntegration() {
  return <Empty icon="plug" title="There is no integration yet: make one on the page Integrations." />
}
