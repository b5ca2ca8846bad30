import { useQuery } from '@tanstack/react-query'
import { useLocation, useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { routesQuery } from '../server/queries.ts'
import { Empty, Loading } from '../ui/page.tsx'

/** Goes to the first agency, once it is known which there are: right after somebody has signed in. */
export function FirstAgency() {
  const { data } = useQuery(routesQuery)
  const navigate = useNavigate()
  const isGraph = useLocation({ select: ({ pathname }) => pathname === '/graph' })
  const agency = data?.agencies[0]
  useEffect(() => {
    if (agency === undefined) return
    void navigate({ to: isGraph ? '/graph/$agency' : '/play/$agency', params: { agency }, replace: true })
  }, [agency, isGraph, navigate])
  if (data && agency === undefined) return <Empty icon="chat" title="This server has tools and no agency." />
  return <Loading />
}
