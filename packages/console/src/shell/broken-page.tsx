import { useQueryClient } from '@tanstack/react-query'
import { type ErrorComponentProps, Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Failure, Page } from '../ui/page.tsx'

/** A page that has failed, e.g. at an answer of a newer server. What is around it stays. */
export function BrokenPage({ error, reset }: ErrorComponentProps) {
  const queries = useQueryClient()
  // It may have failed at what was read: the next attempt reads it anew.
  useEffect(() => queries.removeQueries({ type: 'inactive' }), [queries])
  return (
    <Page title="This page cannot be shown">
      <Failure error={error} retry={reset} />
      <Link to="/" className="mt-3 self-start text-[13px] link">
        To the first page
      </Link>
    </Page>
  )
}
